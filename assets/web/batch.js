/* Batch: many prompts to a zip of pictures. The server draws and keeps; this page orders, follows
   and fetches, also after a reload, for it remembers the run's name. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const RUN = "nitro-canvas:batch";
  const FORM = "nitro-canvas:batch-form";
  const PAUSE_MS = 300;
  const FOLLOW_MS = 700;
  const KINDS = { csv: "csv", jsonl: "jsonl", ndjson: "jsonl" };

  class Batch {
    constructor(root) {
      this.root = root;
      this.find = (name) => root.querySelector(name);
      this.run = null; // the name of the one that is followed
      this.timer = null;
      this.asked = 0;
      root.addEventListener("input", () => this.changed());
      root.addEventListener("change", () => this.changed());
      this.find(".nc-batch-start").addEventListener("click", () => this.start());
      this.find(".nc-batch-stop").addEventListener("click", () => this.act("stop"));
      this.find(".nc-batch-resume").addEventListener("click", () => this.act("resume"));
      this.find(".nc-batch-load").addEventListener("click", () => this.find(".nc-batch-file").click());
      this.find(".nc-batch-file").addEventListener("change", (event) => {
        this.take(event.target.files[0]);
        event.target.value = "";
      });
      root.addEventListener("dragover", (event) => event.preventDefault());
      root.addEventListener("drop", (event) => {
        event.preventDefault();
        event.stopPropagation();
        this.take(event.dataTransfer.files[0]);
      });
    }

    enter() {
      this.models();
      this.restore();
      const kept = read(RUN);
      if (kept && !this.run) this.follow(kept);
      this.changed();
    }

    stop() { clearTimeout(this.timer); this.timer = null; }

    models() {
      const box = this.find(".nc-batch-variants");
      const chosen = new Set([...box.querySelectorAll("input:checked")].map((each) => each.value));
      const cards = nitro.config.variants;
      if (box.querySelectorAll("input").length === cards.length) return;
      box.querySelectorAll("label").forEach((label) => label.remove());
      for (const card of cards) {
        const label = document.createElement("label");
        label.className = "nc-check";
        const tick = Object.assign(document.createElement("input"), { type: "checkbox",
          value: card.id, checked: chosen.has(card.id) || (!chosen.size && card === cards[0]) });
        label.append(tick, ` ${card.title}`);
        box.append(label);
      }
    }

    /* What is asked for, as the server reads it. */
    order() {
      const value = (name) => this.find(name).value;
      return { prompts: value(".nc-batch-prompts"), kind: value(".nc-batch-kind"),
        variants: [...this.root.querySelectorAll(".nc-batch-variants input:checked")].map((each) => each.value),
        seeds: Number(value(".nc-batch-seeds")) || 1, seed: Number(value(".nc-batch-seed")) || 0,
        format: value(".nc-batch-format"), settings: this.settings() };
    }

    /* Those that are filled in; the models know the others best. */
    settings() {
      const given = [...this.root.querySelectorAll("[data-setting]")].filter((field) => field.value !== "");
      return Object.fromEntries(given.map((field) => [field.dataset.setting,
        field.dataset.setting === "cfg_schedule" ? field.value : Number(field.value)]));
    }

    /* Pixels a side, where a chosen model has a choice. */
    sizes() {
      const field = this.find("[data-setting=size]");
      const chosen = this.order().variants.map((id) => nitro.card(id)?.sizes || []);
      const sizes = chosen.length ? chosen.reduce((all, own) => all.filter((size) => own.includes(size))) : [];
      const before = field.value;
      field.replaceChildren(new Option("The model's own", ""), ...sizes.map((size) => new Option(`${size} px`, size)));
      field.value = sizes.includes(Number(before)) ? before : "";
      this.find(".nc-batch-size-field").hidden = !sizes.length;
    }

    restore() {
      const kept = read(FORM);
      if (!kept || this.find(".nc-batch-prompts").value) return;
      this.find(".nc-batch-prompts").value = kept.prompts || "";
      for (const key of ["kind", "seeds", "seed", "format"]) {
        if (key in kept) this.find(`.nc-batch-${key}`).value = kept[key];
      }
      for (const [key, value] of Object.entries(kept.settings || {})) {
        const field = this.find(`[data-setting=${key}]`);
        if (field) field.value = value;
        this.find(".nc-batch-more").open = true;
      }
      this.root.querySelectorAll(".nc-batch-variants input").forEach((tick) => {
        if (kept.variants?.length) tick.checked = kept.variants.includes(tick.value);
      });
    }

    changed() {
      this.sizes();
      const order = this.order();
      write(FORM, order.prompts.length < 200_000 ? order : { ...order, prompts: "" });
      clearTimeout(this.pause);
      this.pause = setTimeout(() => this.measure(order), PAUSE_MS);
    }

    async measure(order) {
      const line = this.find(".nc-batch-size");
      const mine = this.asked += 1;
      if (!order.prompts.trim()) {
        line.textContent = "Write prompts, and this line says how many pictures they make.";
        line.dataset.kind = "info";
        return;
      }
      try {
        const told = await (await post("batch/plan", order)).json();
        if (mine !== this.asked) return;
        const time = told.expected_s === null ? "" : `, about ${duration(told.expected_s)}`;
        line.textContent = `${count(told.prompts, "prompt")}, ${count(told.pictures, "picture")}${time}.`;
        line.dataset.kind = "info";
      } catch (error) {
        if (mine !== this.asked) return;
        line.textContent = error.message;
        line.dataset.kind = "error";
      }
    }

    async take(file) {
      if (!file) return;
      if (file.size > 4 << 20) return void this.say("The file is larger than 4 MiB.", "error");
      const ending = file.name.split(".").pop().toLowerCase();
      this.find(".nc-batch-kind").value = KINDS[ending] || "text";
      this.find(".nc-batch-prompts").value = await file.text();
      this.changed();
    }

    async start() {
      this.busy(true);
      try {
        const told = await (await post("batch/start", this.order())).json();
        write(RUN, told.run);
        this.show(told);
        this.follow(told.run);
      } catch (error) {
        this.busy(false);
        this.find(".nc-batch-run").hidden = false;
        this.say(error.message, "error");
      }
    }

    async act(what) {
      try {
        this.show(await (await nitro.call(`batch/${this.run}/${what}`, { method: "POST" })).json());
        this.follow(this.run);
      } catch (error) { this.say(error.message, "error"); }
    }

    async follow(run) {
      this.run = run;
      clearTimeout(this.timer);
      try {
        const told = await (await nitro.call(`batch/${run}`)).json();
        this.show(told);
        if (told.state === "running") this.timer = setTimeout(() => this.follow(run), FOLLOW_MS);
      } catch (error) {
        if (error.status === 404) {
          write(RUN, null);
          this.run = null;
          this.busy(false);
          this.find(".nc-batch-run").hidden = true;
        } else this.timer = setTimeout(() => this.follow(run), 3000);
      }
    }

    busy(on) {
      this.find(".nc-batch-start").disabled = on;
      this.find(".nc-batch-stop").disabled = !on;
    }

    show(told) {
      this.root.dataset.state = told.state;
      this.find(".nc-batch-run").hidden = false;
      this.busy(told.state === "running");
      this.find(".nc-batch-resume").disabled = told.state === "running" || told.done === told.total;
      const zip = this.find(".nc-batch-zip");
      zip.hidden = told.state === "running" || !told.done;
      zip.href = nitro.address(`batch/${told.run}/pictures.zip`);
      zip.textContent = `Zip of ${count(told.done, "picture")}`;
      const bar = this.find(".nc-batch-progress");
      bar.max = told.total;
      bar.value = told.done;
      const parts = [`${told.done.toLocaleString("en")} of ${count(told.total, "picture")}`];
      if (told.rate && told.state === "running") parts.push(`${told.rate.toFixed(1)} a second`);
      if (told.left_s) parts.push(`${duration(told.left_s)} left`);
      if (told.failed) parts.push(`${told.failed} failed`);
      const words = { running: "Drawing", done: "Done", stopped: "Stopped", failed: "Failed" };
      this.say(`${words[told.state]}: ${parts.join(" · ")}${told.message ? `. ${told.message}` : ""}`,
        told.state === "failed" ? "error" : "info");
      this.find(".nc-batch-faults").replaceChildren(...told.faults.map((text) =>
        Object.assign(document.createElement("li"), { textContent: text })));
      this.thumbs(told);
    }

    thumbs(told) {
      const list = this.find(".nc-batch-newest");
      const there = new Map([...list.children].map((item) => [item.dataset.file, item]));
      list.replaceChildren(...told.newest.map((name) => {
        const key = `${told.run}/${name}`;
        if (there.has(key)) return there.get(key);
        const item = document.createElement("li");
        item.dataset.file = key;
        const image = new Image();
        Object.assign(image, { alt: name, width: 96, height: 96,
          src: nitro.address(`batch/${told.run}/thumbnail/${name}`) });
        item.append(image);
        return item;
      }));
    }

    say(words, kind = "info") {
      const line = this.find(".nc-batch-status");
      line.textContent = words;
      line.dataset.kind = kind;
    }
  }

  const post = (path, body) => nitro.call(path, { method: "POST",
    headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

  function duration(seconds) {
    const whole = Math.max(1, Math.round(seconds));
    const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
    if (hours) return `${hours} h ${minutes} min`;
    return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
  }

  function read(key) {
    try { return JSON.parse(localStorage.getItem(key)); } catch { return null; }
  }

  function write(key, value) {
    try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* the page works without */ }
  }

  nitro.Batch = Batch;
})(window.nitro);
