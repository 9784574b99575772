/* The picture: newest frame wins, nothing is ever blanked between two frames. Above it a second
   canvas shows the token grid: cells committed in this step outlined, masked ones dimmed, and on
   request all of them coloured by the step that committed them. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  class Stage {
    constructor(root) {
      this.root = root;
      this.picture = root.querySelector(".nc-picture");
      this.overlay = root.querySelector(".nc-overlay");
      this.painted = 0; // frames drawn, for whoever measures
      this.waiting = null;
      this.epoch = 0; // frames of an older epoch are not shown any more
      this.decoding = false;
      this.grid = null;
      this.step = null; // of the grid; null = of a finished picture
      this.total = 0;
      this.overlayOn = true;
      this.heatOn = false;
      this.draftOf = null; // the prompt whose draft is on the canvas
      this.finished = null; // the last finished picture, to return to after a stop
    }

    /* Show a JPEG. While one is being decoded only the newest of the others is kept. */
    show(blob, onPainted, onBroken) {
      this.waiting = { blob, onPainted, onBroken };
      if (!this.decoding) this.decodeNext();
    }

    async decodeNext() {
      this.decoding = true;
      while (this.waiting) {
        const { blob, onPainted, onBroken } = this.waiting;
        const { epoch } = this;
        this.waiting = null;
        let bitmap;
        try {
          bitmap = await createImageBitmap(blob);
        } catch { // a frame that cannot be read is a frame less, not a blank
          if (epoch === this.epoch) onBroken?.();
          continue;
        }
        if (epoch === this.epoch) {
          this.draw(bitmap);
          onPainted?.();
        }
        bitmap.close();
      }
      this.decoding = false;
    }

    draw(source) {
      if (this.picture.width !== source.width || this.picture.height !== source.height) {
        this.picture.width = source.width;
        this.picture.height = source.height;
      }
      this.picture.getContext("2d").drawImage(source, 0, 0);
      this.root.classList.add("has-picture");
      this.painted += 1;
    }

    /* A step of the finished picture, looked at again; `restoreFinished` goes back. */
    peek(source, grid, step, total) {
      this.draw(source);
      this.setGrid(grid, step, total);
    }

    /* Frames of an aborted generation that are still being decoded are not shown. */
    drop() {
      this.waiting = null;
      this.epoch += 1;
    }

    keepFinished() {
      const copy = document.createElement("canvas");
      copy.width = this.picture.width;
      copy.height = this.picture.height;
      copy.getContext("2d").drawImage(this.picture, 0, 0);
      this.finished = copy;
    }

    restoreFinished() {
      this.drop();
      this.setGrid(null, null, 0);
      if (this.finished) this.draw(this.finished);
      return Boolean(this.finished);
    }

    /* Another finished picture, an older one for example. */
    setFinished(source) {
      this.drop();
      this.draw(source);
      this.keepFinished();
    }

    setOverlay({ tokens = this.overlayOn, heat = this.heatOn }) {
      this.overlayOn = tokens;
      this.heatOn = heat;
      this.drawOverlay();
    }

    setGrid(grid, step, total) {
      this.grid = grid && grid.length === grid[0].length ? grid : null; // a row has no places
      this.step = step;
      this.total = total;
      this.drawOverlay();
    }

    drawOverlay() {
      const canvas = this.overlay;
      const side = Math.round(canvas.clientWidth * Math.min(2, window.devicePixelRatio || 1)) || 512;
      if (canvas.width !== side) canvas.width = canvas.height = side;
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, side, side);
      if (!this.grid) return;
      const cell = side / this.grid.length;
      if (this.heatOn) this.drawHeat(context, cell);
      if (this.overlayOn && this.step !== null) this.drawStep(context, cell, side);
    }

    /* Dark blue for the first committed, over red to light yellow for the last. */
    drawHeat(context, cell) {
      const last = Math.max(1, this.total);
      this.grid.forEach((row, y) => row.forEach((at, x) => {
        if (at < 1) return; // masked still, or kept from the picture it began with
        const share = at / last;
        context.fillStyle = `hsl(${250 - 200 * share} 90% ${25 + 50 * share}% / 62%)`;
        context.fillRect(x * cell, y * cell, cell, cell);
      }));
    }

    drawStep(context, cell, side) {
      const line = Math.max(1.5, side / 320);
      const style = getComputedStyle(this.root);
      context.fillStyle = style.getPropertyValue("--nc-masked");
      const pens = [[style.getPropertyValue("--nc-committed-edge"), 2.4 * line],
        [style.getPropertyValue("--nc-committed"), line]]; // visible on any colour
      this.grid.forEach((row, y) => row.forEach((at, x) => {
        if (at === 0 || at > this.step) {
          context.fillRect(x * cell + line / 2, y * cell + line / 2, cell - line, cell - line);
        } else if (at === this.step) {
          context.beginPath();
          context.roundRect(x * cell + 1.5 * line, y * cell + 1.5 * line, cell - 3 * line,
            cell - 3 * line, line * 2);
          for (const [colour, width] of pens) {
            context.strokeStyle = colour;
            context.lineWidth = width;
            context.stroke();
          }
        }
      }));
    }
  }

  nitro.Stage = Stage;
})(window.nitro);
