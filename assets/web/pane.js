/* A pane of Compare: a variant's picker and steps, its picture, and what it took to draw it. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const FACTS = { first: "First frame", total: "Total", steps: "Steps", forwards: "Backbone passes",
    step: "A step", flops: "Arithmetic", memory: "Weights" };
  const TIPS = { flops: "Estimated from the model's sizes and these settings, decoding included, text "
    + "left out; 2 operations per multiply-add" };

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  class Pane {
    constructor(compare, slot, settings) {
      this.compare = compare;
      this.slot = slot;
      this.result = null;
      this.failure = "";
      this.shown = Promise.resolve();
      this.build();
      this.choose(settings);
    }

    build() {
      this.variant = element("select", { "aria-label": "Model" });
      for (const card of nitro.config.variants) {
        this.variant.append(new Option(card.title, card.id));
      }
      this.variant.addEventListener("change", () => {
        this.choose({ variant: this.variant.value });
        this.compare.changed();
      });
      this.inputs = {};
      const numbers = Object.entries(nitro.FIELDS_OF_PANE).map(([key, label]) => {
        const input = element("input", { type: "number", step: key === "cfg_scale" ? 0.1 : 1 });
        input.addEventListener("change", () => {
          this.choose({ ...this.settings, [key]: input.value });
          this.compare.changed();
        });
        this.inputs[key] = input;
        return element("label", { class: "nc-field" }, label, input);
      });
      const tool = (label, words, act) => {
        const button = element("button", { type: "button", class: "nc-tool", title: words,
          "aria-label": words }, label);
        button.addEventListener("click", act);
        return button;
      };
      this.left = tool("←", "Move left", () => this.compare.move(this, -1));
      this.right = tool("→", "Move right", () => this.compare.move(this, 1));
      this.gone = tool("×", "Remove this pane", () => this.compare.remove(this));
      this.canvas = element("canvas", { role: "img", "aria-label": "No picture yet", width: 128,
        height: 128 });
      this.frame = element("div", { class: "nc-pane-frame" }, this.canvas,
        element("div", { class: "nc-progress", "aria-hidden": "true" }, element("i")));
      this.words = element("p", { class: "nc-pane-words", role: "status" });
      this.facts = element("dl", { class: "nc-pane-facts" });
      this.published = element("p", { class: "nc-published" });
      this.element = element("li", { class: "nc-pane", "data-slot": this.slot },
        element("div", { class: "nc-pane-head" }, this.variant, this.left, this.right,
          tool("+", "Duplicate", () => {
            this.compare.add({ ...this.settings }, false, this);
            this.compare.changed();
          }), this.gone),
        this.frame, element("div", { class: "nc-pane-numbers" }, ...numbers), this.facts, this.words,
        this.published);
      this.zoom();
    }

    place(at, count) {
      this.left.disabled = at === 0;
      this.right.disabled = at === count - 1;
      this.gone.disabled = count <= 2;
    }

    choose({ variant, ...numbers }) {
      const card = nitro.card(variant) || nitro.config.variants[0];
      this.settings = { variant: card.id };
      this.variant.value = card.id;
      for (const [key, input] of Object.entries(this.inputs)) {
        const value = nitro.allowedSetting(key, numbers[key] ?? card[key].default, card.id);
        this.settings[key] = value;
        Object.assign(input, { value, min: card[key].low, max: card[key].high });
        input.parentElement.hidden = card[key].low === card[key].high;
      }
      this.published.textContent = card.published.length
        ? `Published, not measured here: ${card.published
          .map((figure) => `${figure.name} ${figure.value} (${figure.device})`).join(", ")}.` : "";
    }

    request(prompt, seed) {
      const { cfg_schedule: schedule, temperature } = nitro.settings;
      return { prompt, seed: seed % 2 ** 32, ...this.settings, cfg_schedule: schedule, temperature,
        preview_every: 1 };
    }

    has(request) { return !this.failure && this.result?.key === JSON.stringify(request); }

    begin(request) {
      this.asked = request;
      this.failure = "";
      this.began = performance.now();
      this.first = null;
      this.running = true;
      this.element.dataset.state = "running";
      this.say("");
    }

    take(header, picture) {
      if (header.event === "queued" && header.position > 0) {
        this.say(`Waiting: ${header.position} before it.`);
      } else if (header.event === "waiting") {
        this.say(header.message);
      } else if (header.event === "started") {
        this.say((header.notes || []).join(" "));
        this.weights = header.weights;
      } else if (header.event === "step") {
        this.progress(header.index / header.total);
        if (picture) this.show(picture);
      } else if (header.event === "finished") {
        this.finished(header, picture);
      } else if (header.event === "failed") {
        this.failure = header.message;
        this.stopped();
        this.say(header.message, "error");
      } else if (header.event === "superseded") this.stopped();
    }

    /* Frames are painted in the order in which they came. */
    show(blob) {
      const { asked } = this;
      this.shown = this.shown.then(async () => {
        const bitmap = await createImageBitmap(blob);
        if (this.asked === asked) {
          this.first ??= performance.now() - this.began;
          if (this.canvas.width !== bitmap.width) {
            this.canvas.width = this.canvas.height = bitmap.width;
          }
          this.canvas.getContext("2d").drawImage(bitmap, 0, 0);
          this.element.dataset.frames = Number(this.element.dataset.frames || 0) + 1;
        }
        bitmap.close();
      }).catch(() => { this.say("A frame arrived damaged.", "error"); });
    }

    finished(header, blob) {
      const { asked, settings, began } = this;
      const total = performance.now() - began;
      this.show(blob);
      this.progress(1);
      this.running = false;
      const branches = settings.cfg_scale > 1 ? 2 : 1;
      const card = nitro.card(settings.variant);
      const rounds = { "diffusion": settings.flow_steps, "bit-diffusion": settings.flow_steps,
        "bit-ar": card.tokens }[card.sampler] ?? settings.ar_iterations;
      const again = header.timings.device_ms === 0;
      this.shown.then(() => {
        if (this.asked !== asked) return;
        this.result = { key: JSON.stringify(asked), settings: header.settings, blob,
          measured: again ? null : { first_frame_ms: this.first, total_ms: total,
            step_ms: header.timings.device_ms / header.steps, steps: header.steps,
            backbone_passes: rounds * branches,
            estimated_gflop: nitro.gflopOf(card, settings) } };
        this.element.dataset.state = "finished";
        this.element.dataset.seed = header.seed;
        this.element.dataset.total = Math.round(total);
        this.canvas.setAttribute("aria-label", `${card.title}: ${header.settings.prompt}`);
        const kept = "kept";
        this.tell({ first: again ? kept : nitro.paneTime(this.first),
          total: again ? kept : nitro.paneTime(total), steps: header.steps,
          forwards: rounds * branches,
          step: again ? kept : nitro.paneTime(header.timings.device_ms / header.steps),
          flops: nitro.flopWords(card, settings),
          memory: card.memory_mb ? `${card.memory_mb} MB` : "–" });
      });
    }

    tell(facts) {
      this.facts.replaceChildren(...Object.entries(facts).map(([key, value]) =>
        element("div", TIPS[key] ? { title: TIPS[key] } : {}, element("dt", {}, FACTS[key]),
          element("dd", {}, String(value)))));
    }

    stopped() {
      if (!this.running) return;
      this.running = false;
      this.asked = null;
      this.element.dataset.state = "stopped";
      this.progress(0);
    }

    say(words, kind = "info") {
      this.words.textContent = words;
      this.words.dataset.kind = kind;
    }

    progress(share) {
      this.frame.querySelector(".nc-progress i").style.transform = `scaleX(${share})`;
    }

    /* The wheel zooms at the pointer, dragging moves; all panes follow. */
    zoom() {
      const { frame, compare } = this;
      const kept = (x, scale) => Math.min(0, Math.max(1 - scale, x));
      frame.addEventListener("wheel", (event) => {
        event.preventDefault();
        const box = frame.getBoundingClientRect();
        const [px, py] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
        const { scale, x, y } = compare.view;
        const next = Math.min(12, Math.max(1, scale * 1.0015 ** -event.deltaY));
        compare.look({ scale: next, x: kept(px - ((px - x) * next) / scale, next),
          y: kept(py - ((py - y) * next) / scale, next) });
      }, { passive: false });
      frame.addEventListener("pointermove", (event) => {
        if (!event.buttons || compare.view.scale === 1) return;
        const box = frame.getBoundingClientRect();
        const { scale, x, y } = compare.view;
        compare.look({ scale, x: kept(x + event.movementX / box.width, scale),
          y: kept(y + event.movementY / box.height, scale) });
      });
    }
  }

  nitro.Pane = Pane;
})(window.nitro);
