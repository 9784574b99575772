/* Compare, continued: two panes one over the other, and all of them as a sheet or as JSON. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const FLICKER_MS = 500;
  const CELL_PX = 320;
  const CAPTION_PX = 74;

  class Versus {
    constructor(compare) {
      const { find } = compare;
      this.compare = compare;
      this.find = find;
      this.canvas = find(".nc-over");
      this.timer = null;
      for (const name of [".nc-first", ".nc-second", ".nc-how"]) {
        find(name).addEventListener("change", () => this.refresh());
      }
      find(".nc-split").addEventListener("input", () => this.refresh());
      this.canvas.addEventListener("pointermove", (event) => {
        if (find(".nc-how").value !== "slider") return;
        const box = this.canvas.getBoundingClientRect();
        find(".nc-split").value = (100 * (event.clientX - box.left)) / box.width;
        this.refresh();
      });
      this.list();
    }

    /* The panes by their numbers and names. */
    list() {
      for (const [name, standard] of [[".nc-first", 0], [".nc-second", 1]]) {
        const select = this.find(name);
        const chosen = select.value;
        select.replaceChildren(...this.compare.panes.map((pane, i) =>
          new Option(`${i + 1}: ${nitro.card(pane.settings.variant).title}`, pane.slot)));
        const known = this.compare.panes.some((pane) => pane.slot === chosen);
        select.value = known ? chosen : this.compare.panes[standard]?.slot ?? "";
      }
      this.refresh();
    }

    chosen() {
      return [".nc-first", ".nc-second"].map((name) =>
        this.compare.panes.find((pane) => pane.slot === this.find(name).value));
    }

    refresh() {
      clearInterval(this.timer);
      const [first, second] = this.chosen();
      const both = Boolean(first?.result && second?.result && !this.compare.controller);
      this.find(".nc-versus").hidden = !both;
      if (!both) return;
      const how = this.find(".nc-how").value;
      this.find(".nc-split").hidden = how !== "slider";
      const side = Math.max(first.canvas.width, second.canvas.width);
      if (this.canvas.width !== side) this.canvas.width = this.canvas.height = side;
      const [a, b] = [first, second].map((pane) => pixels(pane.canvas, side));
      this.find(".nc-distance").textContent = `Distance ${distance(a, b).toFixed(1)} of 255`;
      const pen = this.canvas.getContext("2d");
      const put = (pane) => pen.drawImage(pane.canvas, 0, 0, side, side);
      if (how === "slider") {
        const at = Math.round((side * Number(this.find(".nc-split").value)) / 100);
        put(first);
        pen.save();
        pen.beginPath();
        pen.rect(at, 0, side - at, side);
        pen.clip();
        put(second);
        pen.restore();
        pen.fillStyle = "#ffffff";
        pen.fillRect(at - 1, 0, Math.max(1, side / 256), side);
      } else if (how === "difference") {
        const out = pen.createImageData(side, side);
        for (let i = 0; i < out.data.length; i += 1) {
          out.data[i] = i % 4 === 3 ? 255 : Math.abs(a[i] - b[i]);
        }
        pen.putImageData(out, 0, 0);
      } else {
        let now = 0;
        put(first);
        this.timer = setInterval(() => {
          now = 1 - now;
          put(now ? second : first);
        }, FLICKER_MS);
      }
    }

    finished() { return this.compare.panes.filter((pane) => pane.result); }

    /* One PNG: prompt and seed above, each picture with its caption. */
    async sheet() {
      const panes = this.finished();
      const columns = panes.length > 3 ? Math.ceil(panes.length / 2) : panes.length;
      const rows = Math.ceil(panes.length / columns);
      const sheet = document.createElement("canvas");
      const margin = 24;
      sheet.width = columns * (CELL_PX + margin) + margin;
      sheet.height = rows * (CELL_PX + CAPTION_PX) + 72;
      const pen = sheet.getContext("2d");
      pen.fillStyle = "#ffffff";
      pen.fillRect(0, 0, sheet.width, sheet.height);
      pen.fillStyle = "#111110";
      const { prompt, seed } = panes[0].result.settings;
      pen.font = "600 20px system-ui, sans-serif";
      pen.fillText(`${prompt} · seed ${seed}`, margin, 42, sheet.width - 2 * margin);
      panes.forEach((pane, i) => {
        const [x, y] = [margin + (i % columns) * (CELL_PX + margin),
          64 + Math.floor(i / columns) * (CELL_PX + CAPTION_PX)];
        const { settings, measured } = pane.result;
        pen.drawImage(pane.canvas, x, y, CELL_PX, CELL_PX);
        pen.font = "600 16px system-ui, sans-serif";
        pen.fillText(nitro.card(settings.variant).title, x, y + CELL_PX + 24, CELL_PX);
        pen.font = "14px system-ui, sans-serif";
        pen.fillText(`${settings.ar_iterations} x ${settings.flow_steps} steps, CFG ${settings.cfg_scale}`
          + (measured ? `, ${nitro.paneTime(measured.total_ms)} beside the others` : ""),
        x, y + CELL_PX + 46, CELL_PX);
      });
      const blob = await new Promise((done) => { sheet.toBlob(done, "image/png"); });
      nitro.downloadBlob(blob, `${nitro.slug(prompt)}-${seed}-compare.png`);
    }

    json() {
      const panes = this.finished().map(({ result: { settings, measured } }) =>
        ({ settings, measured }));
      const { prompt, seed } = panes[0].settings;
      nitro.downloadBlob(new Blob([JSON.stringify({ prompt, seed, panes }, null, 2)],
        { type: "application/json" }), `${nitro.slug(prompt)}-${seed}-compare.json`);
    }
  }

  function pixels(canvas, side) {
    const copy = new OffscreenCanvas(side, side);
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0, side, side);
    return pen.getImageData(0, 0, side, side).data;
  }

  /* Root mean square over all colour values. */
  function distance(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i += 1) if (i % 4 < 3) sum += (a[i] - b[i]) ** 2;
    return Math.sqrt(sum / ((a.length * 3) / 4));
  }

  nitro.Versus = Versus;
})(window.nitro);
