/* Numbers: what each model takes on this machine, measured on request, beside what its publisher
   states; PocketEval's table; quality against latency as a plot. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const STORE = "nitro-canvas:numbers";
  const FOLLOW_MS = 500;
  const SKILLS = ["single", "two", "counting", "colours", "position", "attribute", "overall"];
  const SVG = "http://www.w3.org/2000/svg";

  class Numbers {
    constructor(root) {
      this.root = root;
      this.find = (name) => root.querySelector(name);
      this.told = null;
      this.timer = null;
      this.find(".nc-measure").addEventListener("click", () => this.measure());
      this.find(".nc-measure-stop").addEventListener("click", () => this.ask("numbers/stop"));
      this.find(".nc-numbers-md").addEventListener("click", () => this.copy(this.markdown(), "table"));
      this.find(".nc-numbers-json").addEventListener("click", () =>
        this.copy(JSON.stringify({ machine: this.told.machine, measured: this.measured(),
          quality: this.told.quality }, null, 2), "numbers"));
    }

    enter() { this.ask("numbers/all"); }

    stop() { clearTimeout(this.timer); this.timer = null; }

    measure() {
      const variants = nitro.config.variants.filter((card) => card.state === "ready").map((card) => card.id);
      this.ask("numbers/measure", { variants });
    }

    async ask(path, body) {
      clearTimeout(this.timer);
      const options = path === "numbers/all" ? {} : { method: "POST",
        headers: { "content-type": "application/json" }, body: JSON.stringify(body || {}) };
      try {
        const told = await (await nitro.call(path, options)).json();
        this.told = { ...this.told, ...told };
        this.show();
      } catch (error) {
        this.say(error.message, "error");
        if (error.status !== 409) return;
      }
      if (this.root.hidden) return;
      if (!this.told?.quality || this.told.running || path !== "numbers/all") {
        this.timer = setTimeout(() => this.ask("numbers/all"), FOLLOW_MS);
      }
    }

    /* By variant: this server's, else what this browser kept of an earlier run on it. */
    measured() {
      const here = this.told.measured.map((each) => ({ ...each, machine: this.told.machine }));
      let kept = [];
      try { kept = JSON.parse(localStorage.getItem(STORE)) || []; } catch { /* none */ }
      const same = (each) => each.machine?.device === this.told.machine.device;
      const all = new Map(kept.filter(same).map((each) => [each.variant, each]));
      for (const each of here) all.set(each.variant, each);
      try { localStorage.setItem(STORE, JSON.stringify([...all.values()])); } catch { /* not kept */ }
      return [...all.values()];
    }

    show() {
      const { told } = this;
      this.root.dataset.state = told.running ? "measuring" : "resting";
      this.find(".nc-measure").disabled = told.running || !told.allowed;
      this.find(".nc-measure-stop").disabled = !told.running;
      const bar = this.find(".nc-numbers-progress");
      bar.hidden = !told.running;
      bar.value = told.share;
      const title = (id) => nitro.card(id)?.title ?? id;
      if (told.running) this.say(`Measuring ${title(told.variant)}; whoever else draws here is served in between.`);
      else if (!told.allowed) this.say("Whoever runs this server has switched measuring off.");
      else this.say(told.message || (told.measured.length ? "" : "Nothing is measured yet."),
        told.message ? "error" : "info");
      const measured = new Map(this.measured().map((each) => [each.variant, each]));
      this.speed(measured);
      if (told.quality) {
        this.quality();
        this.plot(measured);
      }
    }

    speed(measured) {
      this.find(".nc-speed tbody").replaceChildren(...nitro.config.variants.map((card) => {
        const own = measured.get(card.id);
        const published = card.published.map((f) => `${f.name} ${f.value} (${f.device})`).join(", ");
        return row(card.title,
          own ? `${time(own.latency_ms)} ± ${time(own.spread_ms)}` : "–",
          own ? `${digits(own.throughput)} (${own.batch} at once)` : "–",
          nitro.flopWords(card, { ar_iterations: card.ar_iterations.default,
            flow_steps: card.flow_steps.default, cfg_scale: card.cfg_scale.default }),
          published || "–");
      }));
      const one = [...measured.values()].at(-1);
      const company = one && one.company ? ` Up to ${one.company} other pictures were drawn meanwhile.` : "";
      this.find(".nc-machine").textContent = `This machine: ${this.told.machine.device}, torch ${this.told.machine.torch}.`
        + (one ? ` Median of ${one.runs} pictures and half their range, last on ${new Date(one.at).toLocaleString()}.${company}` : "");
    }

    quality() {
      const { quality } = this.told;
      this.find(".nc-quality-words").textContent = `Share of ${quality.per_skill} held-out prompts a skill that came out `
        + "right, by a detector; measured when the weights were made. Pocket's models draw Pocket's world only: the "
        + "figures cannot be compared with published ones.";
      const head = this.find(".nc-quality thead tr");
      head.replaceChildren(...["model", ...SKILLS].map((text) =>
        Object.assign(document.createElement("th"), { textContent: text, scope: "col" })));
      this.find(".nc-quality tbody").replaceChildren(...Object.entries(quality.variants).map(
        ([id, scores]) => row(nitro.card(id)?.title ?? id, ...SKILLS.map((skill) => scores[skill].toFixed(2)))));
    }

    /* Quality upwards, latency to the right on a logarithmic scale; measured points only. */
    plot(measured) {
      const points = Object.entries(this.told.quality.variants)
        .filter(([id]) => measured.has(id))
        .map(([id, scores]) => ({ title: nitro.card(id)?.title ?? id, x: measured.get(id).latency_ms,
          y: scores.overall }));
      const box = this.find(".nc-plot");
      if (!points.length) {
        box.textContent = "Measure, and the models appear here.";
        return;
      }
      const [width, height, left, bottom, top, right] = [720, 360, 52, 46, 16, 120];
      const logs = points.map((point) => Math.log10(point.x));
      const from = Math.floor(Math.min(...logs) * 2) / 2 - 0.1;
      const to = Math.max(from + 0.6, Math.ceil(Math.max(...logs) * 2) / 2);
      const x = (ms) => left + ((Math.log10(ms) - from) / (to - from)) * (width - left - right);
      const y = (share) => top + (1 - share) * (height - top - bottom);
      const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-labelledby": "nc-plot-title nc-plot-text" });
      svg.append(make("title", { id: "nc-plot-title" }, "PocketEval overall against latency on this machine"),
        make("desc", { id: "nc-plot-text" }, points.map((point) =>
          `${point.title}: ${point.y.toFixed(2)} at ${time(point.x)}`).join("; ")));
      for (const share of [0, 0.25, 0.5, 0.75, 1]) {
        svg.append(make("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), class: "nc-axis-line" }),
          make("text", { x: left - 8, y: y(share) + 4, "text-anchor": "end" }, share.toFixed(2)));
      }
      for (const ms of ticks(from, to)) {
        svg.append(make("line", { x1: x(ms), x2: x(ms), y1: top, y2: height - bottom, class: "nc-axis-line" }),
          make("text", { x: x(ms), y: height - bottom + 18, "text-anchor": "middle" }, time(ms)));
      }
      svg.append(make("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" },
        "latency of one picture, measured here"));
      for (const point of points) {
        svg.append(make("circle", { cx: x(point.x), cy: y(point.y), r: 6 }),
          make("text", { x: x(point.x) + 10, y: y(point.y) + 5, class: "nc-plot-name" }, point.title));
      }
      box.replaceChildren(svg);
    }

    markdown() {
      const lines = ["| model | one picture | pictures/s |", "|---|---:|---:|"];
      for (const each of this.measured()) {
        lines.push(`| ${each.variant} | ${time(each.latency_ms)} ± ${time(each.spread_ms)} | `
          + `${digits(each.throughput)} (${each.batch} at once) |`);
      }
      return `${lines.join("\n")}\n\n${this.told.machine.device}, torch ${this.told.machine.torch}\n`;
    }

    async copy(text, what) {
      try {
        await navigator.clipboard.writeText(text);
        this.say(`The ${what} is in the clipboard.`);
      } catch { // no clipboard without https or permission
        nitro.downloadBlob(new Blob([text], { type: "text/plain" }), "nitro-numbers.txt");
      }
    }

    say(words, kind = "info") {
      const line = this.find(".nc-numbers-status");
      if (line.textContent !== words) line.textContent = words;
      line.dataset.kind = kind;
    }
  }

  function make(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  }

  function row(title, ...cells) {
    const line = document.createElement("tr");
    const name = Object.assign(document.createElement("th"), { textContent: title, scope: "row" });
    line.append(name, ...cells.map((text) =>
      Object.assign(document.createElement("td"), { textContent: text })));
    return line;
  }

  /* 1, 2 and 5 times powers of ten between two logarithms. */
  function ticks(from, to) {
    const all = [];
    for (let power = Math.floor(from); power <= to; power += 1) {
      for (const digit of [1, 2, 5]) all.push(digit * 10 ** power);
    }
    return all.filter((value) => Math.log10(value) >= from && Math.log10(value) <= to);
  }

  const time = (ms) => (ms < 1 ? `${ms.toFixed(1)} ms` : nitro.report.time(ms));
  const digits = (value) => (value < 10 ? value.toFixed(2) : value.toFixed(1));

  nitro.Numbers = Numbers;
})(window.nitro);
