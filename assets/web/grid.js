/* Grid: one setting across, another down, a third from table to table; cells fill as they finish,
   the cheapest first, many in one stream so that the engine batches them. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const STORE = "nitro-canvas:grid";
  const TOGETHER = 16; // slots of one stream
  const PLACES = ["Across", "Down", "Tables"];
  const CELL_PX = 160;

  class Grid {
    constructor(root) {
      this.root = root;
      this.find = (name) => root.querySelector(name);
      this.cells = [];
      this.controller = null;
      this.build();
      this.find(".nc-grid-draw").addEventListener("click", () => this.draw());
      this.find(".nc-grid-stop").addEventListener("click", () => this.stop());
      this.find(".nc-grid-sheet").addEventListener("click", () => this.sheet());
      root.addEventListener("change", () => { this.remember(); this.plan(); });
      root.addEventListener("keydown", (event) => {
        if (event.key === "Escape") this.stop();
        if (event.key === "Enter" && !event.shiftKey && event.target.matches("textarea, input")) {
          event.preventDefault();
          this.draw();
        }
      });
    }

    build() {
      let kept = {};
      try { kept = JSON.parse(localStorage.getItem(STORE)) || {}; } catch { /* starts anew */ }
      const variant = this.find(".nc-grid-variant");
      for (const card of nitro.config.variants) variant.append(new Option(card.title, card.id));
      variant.value = nitro.card(kept.variant)?.id ?? nitro.config.variants[0].id;
      this.find(".nc-grid-prompt").value = kept.prompt || "";
      this.find(".nc-grid-seed").value = kept.seed ?? 0;
      const standard = [["ar_iterations", "2-20 step 6"], ["cfg_scale", "1-5 step 1"], ["", ""]];
      this.axes = PLACES.map((place, i) => {
        const [key, text] = kept.axes?.[i] || standard[i];
        const row = document.createElement("div");
        const select = document.createElement("select");
        const values = document.createElement("input");
        row.className = "nc-axis";
        select.setAttribute("aria-label", `${place}: which setting`);
        values.setAttribute("aria-label", `${place}: which values`);
        for (const [id, words] of Object.entries(nitro.AXES)) select.append(new Option(words, id));
        select.value = key in nitro.AXES ? key : "";
        values.value = text;
        select.addEventListener("change", () => {
          values.value = nitro.AXIS_EXAMPLES[select.value] ?? "";
          if (select.value === "variant") {
            values.value = nitro.config.variants.filter((card) => card.state !== "failed")
              .map((card) => card.id).join(", ");
          }
        });
        row.append(Object.assign(document.createElement("span"), { textContent: place }), select, values);
        this.find(".nc-axes").append(row);
        return { select, values };
      });
    }

    remember() {
      const axes = this.axes.map(({ select, values }) => [select.value, values.value]);
      const { prompt, seed, variant } = this.base();
      try {
        localStorage.setItem(STORE, JSON.stringify({ axes, prompt, seed, variant }));
      } catch { /* lasts as long as the page */ }
    }

    base() {
      const variant = this.find(".nc-grid-variant").value;
      const own = variant === nitro.settings.variant ? nitro.settings : nitro.variantDefaults(variant);
      const { ar_iterations, flow_steps, cfg_scale } = own;
      return { prompt: this.find(".nc-grid-prompt").value, variant,
        seed: nitro.allowedSetting("seed", this.find(".nc-grid-seed").value),
        ar_iterations, flow_steps, cfg_scale, cfg_schedule: nitro.settings.cfg_schedule,
        temperature: nitro.settings.temperature, preview_every: 0 };
    }

    say(words, kind = "info") {
      const line = this.find(".nc-grid-status");
      line.textContent = words;
      line.dataset.kind = kind;
    }

    /* The cells that are asked for, and what they will take; null, and said, if that makes no sense. */
    plan() {
      if (this.controller) return null;
      let problem = "";
      const explain = (words) => { problem ||= words; };
      const axes = this.axes.map(({ select, values }) => ({ key: select.value,
        values: select.value ? nitro.axisValues(select.value, values.value, explain) : [] }));
      const base = this.base();
      if (!problem && !base.prompt.trim() && !axes.some((axis) => axis.key === "prompt")) {
        explain("Type a prompt.");
      }
      const cells = problem ? null : nitro.gridCells(axes, base, explain);
      if (!cells) {
        this.say(problem, "error");
        return null;
      }
      const ms = cells.reduce((sum, { request, cost }) =>
        sum + cost * (nitro.runs.stepMs(request.variant) ?? NaN), 0);
      const about = Number.isNaN(ms) ? "" : `, at most about ${nitro.report.time(ms)}`;
      this.say(`${cells.length} pictures${about}.`, "quiet");
      return { cells, axes };
    }

    /* Draw what is missing; cells whose picture is there already stay. */
    async draw() {
      const plan = this.plan();
      if (!plan) return;
      const known = new Map(this.cells.filter((cell) => cell.settings)
        .map((cell) => [JSON.stringify(cell.request), cell]));
      this.axesShown = plan.axes;
      this.cells = plan.cells.map((cell) => known.get(JSON.stringify(cell.request))
        ? { ...known.get(JSON.stringify(cell.request)), place: cell.place } : cell);
      this.table();
      const missing = this.cells.filter((cell) => !cell.settings).sort((a, b) => a.cost - b.cost);
      const mine = this.controller = new AbortController();
      const began = performance.now();
      this.state();
      try {
        for (let at = 0; at < missing.length; at += TOGETHER) {
          await this.stream(missing.slice(at, at + TOGETHER), mine);
          if (this.controller !== mine) return;
        }
        const failed = this.cells.filter((cell) => cell.failure);
        this.controller = null;
        this.took = performance.now() - began;
        this.say(failed.length ? `${failed.length} could not be drawn: ${failed[0].failure}`
          : `${missing.length} drawn in ${nitro.report.time(this.took)}.`, failed.length ? "error" : "quiet");
      } catch (error) {
        if (this.controller !== mine) return;
        this.controller = null;
        this.say(error instanceof nitro.ServerError ? error.message
          : "The server cannot be reached. What is drawn is kept; press Draw to go on.", "error");
      }
      this.state();
    }

    async stream(part, mine) {
      const bySlot = new Map(part.map((cell, i) => [`cell ${i}`, cell]));
      const shown = [];
      await nitro.streamRaw([...bySlot].map(([slot, { request }]) => ({ slot, request })), mine.signal,
        (header, blob) => {
          const cell = bySlot.get(header.slot);
          if (this.controller !== mine || !cell) return;
          if (header.event === "finished") {
            cell.settings = header.settings;
            cell.result = header.result;
            shown.push(this.show(cell, blob));
          } else if (header.event === "failed") cell.failure = header.message;
          const done = this.cells.filter((each) => each.settings).length;
          this.say(`${done} of ${this.cells.length}`);
        });
      await Promise.all(shown);
    }

    async show(cell, blob) {
      cell.bitmap = await createImageBitmap(blob);
      this.paint(cell);
    }

    paint(cell) {
      if (!cell.bitmap || !cell.canvas) return;
      const { bitmap, canvas } = cell;
      canvas.width = canvas.height = bitmap.width;
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      canvas.parentElement.disabled = false;
      canvas.parentElement.dataset.done = "yes";
    }

    stop() {
      if (!this.controller) return;
      this.controller.abort();
      this.controller = null;
      this.say("Stopped. What is drawn is kept; Draw goes on.");
      this.state();
    }

    state() {
      const running = Boolean(this.controller);
      this.root.dataset.state = running ? "running" : "resting";
      this.find(".nc-grid-stop").disabled = !running;
      this.find(".nc-grid-sheet").disabled = running || !this.cells.some((cell) => cell.settings);
    }

    label({ key, values }, i) {
      if (!key) return "";
      return key === "variant" ? nitro.card(values[i]).title : `${nitro.AXES[key]} ${values[i]}`;
    }

    /* Empty tables, one per value of the third axis; pictures that are there are painted in. */
    table() {
      const [across, down, third] = this.axesShown;
      const count = (axis) => (axis.key ? axis.values.length : 1);
      const tables = Array.from({ length: count(third) }, (_, z) => {
        const table = document.createElement("table");
        if (third.key) table.createCaption().textContent = this.label(third, z);
        const head = table.createTHead().insertRow();
        head.append(document.createElement("td"));
        for (let x = 0; x < count(across); x += 1) {
          const th = Object.assign(document.createElement("th"), { scope: "col" });
          th.textContent = this.label(across, x);
          head.append(th);
        }
        const body = table.createTBody();
        for (let y = 0; y < count(down); y += 1) {
          const row = body.insertRow();
          const th = Object.assign(document.createElement("th"), { scope: "row" });
          th.textContent = this.label(down, y);
          row.append(th);
          for (let x = 0; x < count(across); x += 1) {
            const cell = this.cells.find((each) => `${each.place}` === `${[x, y, z]}`);
            row.insertCell().append(cell ? this.button(cell) : "–");
          }
        }
        return table;
      });
      this.find(".nc-grid-tables").replaceChildren(...tables);
      this.cells.forEach((cell) => this.paint(cell));
    }

    button(cell) {
      const button = document.createElement("button");
      button.type = "button";
      button.disabled = true;
      button.title = "Open in Live";
      cell.canvas = document.createElement("canvas");
      cell.canvas.width = cell.canvas.height = 64;
      const { prompt, variant, seed } = cell.request;
      button.setAttribute("aria-label", `Open in Live: ${prompt}, ${variant}, seed ${seed}`);
      button.append(cell.canvas);
      button.addEventListener("click", () => {
        location.hash = "live";
        nitro.setMode("look");
        nitro.setBase(null);
        nitro.applySettings(cell.settings);
        nitro.run({ forced: true });
      });
      return button;
    }

    async sheet() {
      const [across, down, third] = this.axesShown;
      const count = (axis) => (axis.key ? axis.values.length : 1);
      const [columns, rows, tables] = [across, down, third].map(count);
      const [left, top] = [down.key ? 150 : 16, 34];
      const height = top + rows * (CELL_PX + 6) + (third.key ? 34 : 0);
      const sheet = document.createElement("canvas");
      sheet.width = left + columns * (CELL_PX + 6) + 16;
      sheet.height = 48 + tables * height + 16;
      const pen = sheet.getContext("2d");
      pen.fillStyle = "#ffffff";
      pen.fillRect(0, 0, sheet.width, sheet.height);
      pen.fillStyle = "#111110";
      pen.font = "600 18px system-ui, sans-serif";
      const { prompt, seed } = this.cells[0].request;
      pen.fillText(`${prompt} · seed ${seed}`, 16, 32, sheet.width - 32);
      pen.font = "14px system-ui, sans-serif";
      for (let z = 0; z < tables; z += 1) {
        const base = 48 + z * height + (third.key ? 34 : 0);
        if (third.key) pen.fillText(this.label(third, z), 16, base - 8);
        for (let x = 0; x < columns; x += 1) {
          pen.fillText(this.label(across, x), left + x * (CELL_PX + 6), base + 22, CELL_PX);
        }
        for (let y = 0; y < rows; y += 1) {
          pen.fillText(this.label(down, y), 16, base + top + y * (CELL_PX + 6) + CELL_PX / 2, left - 24);
        }
      }
      for (const { place: [x, y, z], bitmap } of this.cells) {
        const base = 48 + z * height + (third.key ? 34 : 0);
        const [px, py] = [left + x * (CELL_PX + 6), base + top + y * (CELL_PX + 6)];
        if (bitmap) pen.drawImage(bitmap, px, py, CELL_PX, CELL_PX);
        else pen.strokeRect(px, py, CELL_PX, CELL_PX);
      }
      const blob = await new Promise((done) => { sheet.toBlob(done, "image/png"); });
      nitro.downloadBlob(blob, `${nitro.slug(prompt)}-${seed}-grid.png`);
    }

    enter() {
      const box = this.find(".nc-grid-prompt");
      if (!box.value) box.value = document.querySelector("#nc-prompt textarea").value;
      this.plan();
    }
  }

  nitro.Grid = Grid;
})(window.nitro);
