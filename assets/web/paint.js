/* Repaint: cells of the picture are freed with a brush or a lasso, and only these are drawn anew.

   What is shown always follows from three things: the picture as it was when the first cell was
   chosen, the chosen cells, and the settings. So an eraser brings cells back, and typing redraws
   the chosen cells only. "Keep" takes the picture as it is now for the next choice. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  class Paint {
    constructor(stage) {
      const find = (name) => stage.root.querySelector(name);
      this.stage = stage;
      this.canvas = find(".nc-mask");
      this.size = find(".nc-brush-size");
      this.context = find(".nc-context");
      this.grid = 0;
      this.cells = new Uint8Array(0); // 1 = free
      this.origin = null; // {picture, canvas, result, frames}: what the cells are chosen on
      this.erasing = false;
      this.stroke = null; // {cells, lasso}
      this.cursor = null; // of the keyboard: [x, y]
      this.listen(find);
    }

    listen(find) {
      const { canvas } = this;
      canvas.addEventListener("pointerdown", (event) => this.down(event));
      canvas.addEventListener("pointermove", (event) => this.move(event));
      canvas.addEventListener("pointerup", () => this.up());
      canvas.addEventListener("pointercancel", () => this.cancel());
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("blur", () => { this.cursor = null; this.draw(); });
      find(".nc-brush").addEventListener("click", () => this.erase(false));
      find(".nc-eraser").addEventListener("click", () => this.erase(true));
      find(".nc-invert").addEventListener("click", () => this.invert());
      find(".nc-clear").addEventListener("click", () => this.clear());
      find(".nc-keep").addEventListener("click", () => this.keep());
      this.context.addEventListener("change", () => { if (this.any()) this.commit(); });
      new ResizeObserver(() => this.draw()).observe(canvas);
    }

    any() { return this.cells.includes(1); }

    /* The picture cells are chosen on. Without one there is nothing to choose. */
    ready() {
      const card = nitro.card();
      const grid = card?.grid;
      if (!grid || !this.stage.finished || !nitro.runs.result) {
        nitro.say("Draw a picture first; then paint over what should change.", "warn");
        return false;
      }
      if (grid !== this.grid) this.regrid(grid);
      if (!this.origin) {
        const { result } = nitro.runs;
        this.origin = { picture: result.picture, canvas: this.stage.finished, result,
          frames: nitro.film.frames };
      }
      return true;
    }

    /* The chosen cells on a variant's grid of another size. */
    regrid(grid) {
      const old = this.cells;
      const before = this.grid;
      this.grid = grid;
      this.cells = Uint8Array.from({ length: grid * grid }, (_, i) => {
        const [x, y] = [i % grid, Math.floor(i / grid)].map((v) => Math.floor((v * before) / grid));
        return before ? old[y * before + x] : 0;
      });
    }

    erase(on) {
      this.erasing = on;
      const press = (name, state) =>
        this.stage.root.querySelector(name).setAttribute("aria-pressed", String(state));
      press(".nc-brush", !on);
      press(".nc-eraser", on);
    }

    point(event) {
      const box = this.canvas.getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * this.grid,
        ((event.clientY - box.top) / box.height) * this.grid];
    }

    down(event) {
      if (event.button > 0 || !this.ready()) return;
      event.preventDefault();
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.focus({ preventScroll: true });
      this.cursor = null;
      const at = this.point(event);
      this.stroke = { before: this.cells.slice(), last: at, lasso: event.shiftKey ? [at] : null };
      if (!this.stroke.lasso) this.dab(at);
      this.draw();
    }

    move(event) {
      if (!this.stroke) return;
      event.preventDefault();
      const events = event.getCoalescedEvents?.() || [];
      for (const each of events.length ? events : [event]) {
        const at = this.point(each);
        if (this.stroke.lasso) this.stroke.lasso.push(at);
        else this.line(this.stroke.last, at);
        this.stroke.last = at;
      }
      this.draw();
    }

    up() {
      const { stroke } = this;
      this.stroke = null;
      if (!stroke) return;
      if (stroke.lasso) this.fill(stroke.lasso);
      this.draw();
      if (this.cells.some((cell, i) => cell !== stroke.before[i])) this.commit();
    }

    cancel() {
      if (this.stroke) this.cells = this.stroke.before;
      this.stroke = null;
      this.draw();
    }

    line([x0, y0], [x1, y1]) {
      const steps = Math.max(1, Math.ceil(4 * Math.hypot(x1 - x0, y1 - y0)));
      for (let i = 1; i <= steps; i += 1) {
        this.dab([x0 + ((x1 - x0) * i) / steps, y0 + ((y1 - y0) * i) / steps]);
      }
    }

    /* The cell under the pointer, and those whose middle the brush covers. */
    dab([x, y]) {
      const radius = Number(this.size.value) / 2;
      const reach = Math.ceil(radius);
      for (let cy = Math.floor(y) - reach; cy <= Math.floor(y) + reach; cy += 1) {
        for (let cx = Math.floor(x) - reach; cx <= Math.floor(x) + reach; cx += 1) {
          const under = cx === Math.floor(x) && cy === Math.floor(y);
          if (under || Math.hypot(cx + 0.5 - x, cy + 0.5 - y) < radius - 0.1) this.set(cx, cy);
        }
      }
    }

    set(x, y) {
      if (x < 0 || y < 0 || x >= this.grid || y >= this.grid) return;
      this.cells[y * this.grid + x] = this.erasing ? 0 : 1;
    }

    /* All cells whose middle lies within the outline. */
    fill(outline) {
      const path = new Path2D();
      outline.forEach(([x, y], i) => (i ? path.lineTo(x, y) : path.moveTo(x, y)));
      path.closePath();
      const context = this.canvas.getContext("2d");
      context.save();
      context.resetTransform();
      for (let i = 0; i < this.cells.length; i += 1) {
        const [x, y] = [i % this.grid, Math.floor(i / this.grid)];
        if (context.isPointInPath(path, x + 0.5, y + 0.5)) this.set(x, y);
      }
      context.restore();
    }

    key(event) {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (event.key in step) {
        if (!this.ready()) return;
        const last = this.grid - 1;
        const [x, y] = this.cursor || [last >> 1, last >> 1];
        const [dx, dy] = step[event.key];
        this.cursor = [Math.min(last, Math.max(0, x + dx)), Math.min(last, Math.max(0, y + dy))];
      } else if (event.key === " " && this.cursor) {
        const [x, y] = this.cursor;
        const at = y * this.grid + x;
        this.cells[at] = 1 - this.cells[at];
        this.commit();
      } else return;
      event.preventDefault();
      event.stopPropagation();
      this.draw();
    }

    invert() {
      if (!this.ready()) return;
      this.cells = this.cells.map((cell) => 1 - cell);
      this.draw();
      this.commit();
    }

    /* No cell is free: the picture as it was. */
    clear() {
      const { origin } = this;
      if (!origin) return;
      nitro.stop();
      this.forget();
      nitro.showMoment({ ...origin, picture: origin.canvas });
      nitro.say("The picture is as it was before.");
    }

    /* The picture as it is now is what the next cells are chosen on. */
    keep() {
      if (nitro.runs.current || !this.any()) return;
      this.forget();
      nitro.say("Kept. Paint over the next part, or type.");
    }

    forget() {
      this.origin = null;
      this.cells.fill(0);
      if (nitro.base()?.kind === "mask") nitro.setBase(null);
      this.draw();
    }

    commit() {
      if (!this.any()) return void this.clear();
      this.steer();
      nitro.stroke();
    }

    /* From now on runs draw the chosen cells of the origin only. */
    steer() {
      const { origin, grid } = this;
      const cells = this.cells.slice();
      nitro.setBase({
        kind: "mask",
        origin, grid, cells,
        fields: (card) => {
          const wanted = card.grid === grid ? cells : rescaled(cells, grid, card.grid);
          return { picture: origin.picture, free: wanted.join(""),
            context: Number(this.context.value) };
        },
        renew: async () => { origin.picture = await nitro.sendCanvas(origin.canvas); },
      });
      if (!origin.picture) origin.picture = "-"; // refused by the server, and then sent anew
    }

    /* Undo brought back a picture that was made with these cells, or with none. */
    take(base) {
      if (base?.kind === "mask") {
        Object.assign(this, { origin: base.origin, grid: base.grid, cells: base.cells.slice() });
      } else {
        this.origin = null;
        this.cells.fill(0);
      }
      this.draw();
    }

    draw() {
      const { canvas, grid } = this;
      const side = Math.round(canvas.clientWidth * Math.min(2, window.devicePixelRatio || 1));
      if (!side) return;
      if (canvas.width !== side) canvas.width = canvas.height = side;
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, side, side);
      const cell = side / (grid || 1);
      const accent = getComputedStyle(this.stage.root).getPropertyValue("--nc-accent");
      const free = (x, y) => x >= 0 && y >= 0 && x < grid && y < grid && this.cells[y * grid + x];
      context.strokeStyle = accent;
      context.lineWidth = Math.max(2, side / 220);
      context.beginPath();
      for (let i = 0; i < this.cells.length; i += 1) { // the outline of what is chosen
        const [x, y] = [i % grid, Math.floor(i / grid)];
        if (!this.cells[i]) continue;
        if (this.stroke) {
          context.fillStyle = `color-mix(in srgb, ${accent} 30%, transparent)`;
          context.fillRect(x * cell, y * cell, cell, cell);
        }
        for (const [dx, dy, ax, ay, bx, by] of [[-1, 0, 0, 0, 0, 1], [1, 0, 1, 0, 1, 1],
          [0, -1, 0, 0, 1, 0], [0, 1, 0, 1, 1, 1]]) {
          if (free(x + dx, y + dy)) continue;
          context.moveTo((x + ax) * cell, (y + ay) * cell);
          context.lineTo((x + bx) * cell, (y + by) * cell);
        }
      }
      context.stroke();
      const outline = this.stroke?.lasso;
      if (outline) {
        context.setLineDash([6, 5]);
        context.beginPath();
        outline.forEach(([x, y]) => context.lineTo(x * cell, y * cell));
        context.stroke();
        context.setLineDash([]);
      }
      if (this.cursor) {
        context.strokeStyle = "#ffffff";
        context.strokeRect(this.cursor[0] * cell + 2, this.cursor[1] * cell + 2, cell - 4, cell - 4);
      }
    }
  }

  function rescaled(cells, from, to) {
    return Uint8Array.from({ length: to * to }, (_, i) =>
      cells[Math.floor((Math.floor(i / to) * from) / to) * from + Math.floor(((i % to) * from) / to)]);
  }

  nitro.Paint = Paint;
})(window.nitro);
