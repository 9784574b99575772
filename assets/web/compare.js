/* Compare: two to six panes, each a variant with its own steps; one prompt and seed, one stream. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const STORE = "nitro-canvas:compare";
  const PAUSE_MS = 250;
  const MOST = 6;
  const FIELDS = { ar_iterations: "AR iterations", flow_steps: "Flow steps", cfg_scale: "CFG" };
  const ms = (value) => (value === null || value === undefined ? "–" : nitro.report.time(value));

  class Compare {
    constructor(root) {
      this.root = root;
      this.find = (name) => root.querySelector(name);
      this.panes = [];
      this.next = 1; // names of slots are not used twice
      this.controller = null;
      this.pause = null;
      this.view = { scale: 1, x: 0, y: 0 };
      this.listen();
      this.restore();
      this.versus = new nitro.Versus(this);
    }

    listen() {
      const { find } = this;
      const on = (name, event, act) => find(name).addEventListener(event, act);
      on(".nc-compare-prompt", "input", () => this.schedule());
      on(".nc-compare-prompt", "keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.draw();
      });
      on(".nc-compare-seed", "change", () => this.schedule());
      on(".nc-compare-lock", "change", () => this.schedule());
      on(".nc-compare-roll", "click", () => {
        find(".nc-compare-seed").value = nitro.rollSeed();
        this.draw();
      });
      on(".nc-compare-draw", "click", () => this.draw());
      on(".nc-compare-stop", "click", () => this.stop("Stopped."));
      on(".nc-pane-add", "click", () => { this.add(this.unused()); this.changed(); });
      on(".nc-sheet", "click", () => this.versus.sheet());
      on(".nc-json", "click", () => this.versus.json());
      on(".nc-zoom-out", "click", () => this.look({ scale: 1, x: 0, y: 0 }));
      this.root.addEventListener("keydown", (event) => {
        if (event.key === "Escape") this.stop("Stopped.");
      });
    }

    restore() {
      let kept = null;
      try { kept = JSON.parse(localStorage.getItem(STORE)); } catch { /* starts anew */ }
      const known = (kept?.panes || []).filter((pane) => nitro.card(pane?.variant));
      const panes = known.length > 1 ? known.slice(0, MOST)
        : nitro.config.variants.filter((card) => card.state !== "failed").slice(0, 4);
      for (const pane of panes) this.add(pane.variant ? pane : { variant: pane.id }, true);
      while (this.panes.length < 2) this.add({ variant: nitro.config.variants[0].id }, true);
      this.find(".nc-compare-prompt").value = kept?.prompt || "";
      this.find(".nc-compare-seed").value = kept?.seed ?? nitro.rollSeed();
      this.find(".nc-compare-lock").checked = kept?.lock !== false;
      this.arrange();
    }

    remember() {
      const panes = this.panes.map(({ settings }) => settings);
      try {
        localStorage.setItem(STORE, JSON.stringify({ panes, ...this.asked() }));
      } catch { /* storage is forbidden: lasts as long as the page */ }
    }

    asked() {
      const { find } = this;
      return { prompt: find(".nc-compare-prompt").value, lock: find(".nc-compare-lock").checked,
        seed: nitro.allowedSetting("seed", find(".nc-compare-seed").value) };
    }

    unused() {
      const used = this.panes.map((pane) => pane.settings.variant);
      const free = nitro.config.variants.find((c) => c.state !== "failed" && !used.includes(c.id));
      return { variant: (free || nitro.config.variants[0]).id };
    }

    add(settings, quietly = false, after = null) {
      if (this.panes.length >= MOST) return;
      const pane = new nitro.Pane(this, `pane ${this.next}`, settings);
      this.next += 1;
      const at = after ? this.panes.indexOf(after) + 1 : this.panes.length;
      this.panes.splice(at, 0, pane);
      if (!quietly) this.arrange();
    }

    arrange() {
      const list = this.find(".nc-panes");
      list.replaceChildren(...this.panes.map((pane) => pane.element));
      list.dataset.count = this.panes.length;
      this.find(".nc-pane-add").disabled = this.panes.length >= MOST;
      this.panes.forEach((pane, i) => pane.place(i, this.panes.length));
      this.versus?.list();
    }

    move(pane, by) {
      const at = this.panes.indexOf(pane);
      this.panes.splice(at, 1);
      this.panes.splice(at + by, 0, pane);
      this.arrange();
      this.remember();
    }

    remove(pane) {
      this.panes = this.panes.filter((each) => each !== pane);
      this.arrange();
      this.remember();
    }

    /* A pane's settings or their number changed: those that lack a picture of them are drawn. */
    changed() {
      this.versus.list();
      this.remember();
      this.schedule();
    }

    schedule() {
      clearTimeout(this.pause);
      this.remember();
      this.pause = setTimeout(() => this.draw(true), PAUSE_MS);
    }

    say(words, kind = "info") {
      const line = this.find(".nc-compare-status");
      line.textContent = words;
      line.dataset.kind = kind;
    }

    stop(words = "") {
      clearTimeout(this.pause);
      if (!this.controller) return;
      this.controller.abort();
      this.controller = null;
      this.panes.forEach((pane) => pane.stopped());
      this.state(words);
    }

    state(words, kind) {
      const running = Boolean(this.controller);
      this.root.dataset.state = running ? "running" : "resting";
      this.find(".nc-compare-stop").disabled = !running;
      const some = !running && this.panes.some((pane) => pane.result);
      this.find(".nc-sheet").disabled = this.find(".nc-json").disabled = !some;
      this.say(words, kind);
      this.versus?.refresh();
    }

    /* Draw all panes, or only those without a picture of their settings. */
    async draw(missing = false) {
      clearTimeout(this.pause);
      const { prompt, seed, lock } = this.asked();
      this.remember();
      if (!prompt.trim()) return void this.say("Type what all of them should draw.");
      const wanted = this.panes.map((pane, i) => [pane, pane.request(prompt, lock ? seed : seed + i)])
        .filter(([pane, request]) => !(missing && pane.has(request)));
      if (!wanted.length) return;
      this.stop();
      const mine = this.controller = new AbortController();
      wanted.forEach(([pane, request]) => pane.begin(request));
      this.state("Drawing…");
      const bySlot = new Map(wanted.map(([pane]) => [pane.slot, pane]));
      try {
        await nitro.streamRaw(wanted.map(([pane, request]) => ({ slot: pane.slot, request })),
          mine.signal, (header, picture) => {
            if (this.controller === mine) bySlot.get(header.slot)?.take(header, picture);
          });
        if (this.controller !== mine) return;
        await Promise.all(wanted.map(([pane]) => pane.shown));
        this.controller = null;
        const failed = wanted.filter(([pane]) => pane.failure).length;
        this.state(failed ? `${failed} of ${wanted.length} could not be drawn.`
          : "All are finished.", failed ? "error" : "quiet");
      } catch (error) {
        if (this.controller !== mine) return;
        this.controller = null;
        this.panes.forEach((pane) => pane.stopped());
        const wait = error.retryAfter;
        this.state(error instanceof nitro.ServerError ? error.message
          : "The server cannot be reached. Prompt and panes are kept; press Draw to try again.", "error");
        if (wait) this.pause = setTimeout(() => this.draw(true), 1000 * wait);
      }
    }

    enter() {
      const box = this.find(".nc-compare-prompt");
      if (!box.value) box.value = document.querySelector("#nc-prompt textarea").value;
      this.draw(true);
    }

    /* Zoom and place are the same in all panes. */
    look(view) {
      this.view = view;
      const move = `translate(${100 * view.x}%, ${100 * view.y}%) scale(${view.scale})`;
      this.root.querySelectorAll(".nc-pane canvas").forEach((canvas) => {
        canvas.style.transform = move;
      });
      this.find(".nc-zoom-out").disabled = view.scale === 1;
    }
  }

  nitro.FIELDS_OF_PANE = FIELDS;
  nitro.paneTime = ms;

  nitro.Compare = Compare;
})(window.nitro);
