/* The picture: newest frame wins, nothing is ever blanked between two frames. Above it a second
   canvas shows the token grid: cells committed in this step outlined, masked ones dimmed. */
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
      this.step = 0;
      this.overlayOn = true;
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
      this.setGrid(null, 0);
      if (this.finished) this.draw(this.finished);
      return Boolean(this.finished);
    }

    setOverlay(on) {
      this.overlayOn = on;
      this.drawOverlay();
    }

    setGrid(grid, step) {
      this.grid = grid;
      this.step = step;
      this.drawOverlay();
    }

    drawOverlay() {
      const canvas = this.overlay;
      const side = Math.round(canvas.clientWidth * Math.min(2, window.devicePixelRatio || 1)) || 512;
      if (canvas.width !== side) canvas.width = canvas.height = side;
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, side, side);
      if (!this.overlayOn || !this.grid) return;
      const rows = this.grid.length;
      const columns = this.grid[0].length;
      const [w, h] = [side / columns, side / rows];
      const line = Math.max(1.5, side / 320);
      const style = getComputedStyle(this.root);
      context.fillStyle = style.getPropertyValue("--nc-masked");
      const pens = [[style.getPropertyValue("--nc-committed-edge"), 2.4 * line],
        [style.getPropertyValue("--nc-committed"), line]]; // visible on any colour
      this.grid.forEach((row, y) => row.forEach((at, x) => {
        if (at === 0) {
          context.fillRect(x * w + line / 2, y * h + line / 2, w - line, h - line);
        } else if (at === this.step) {
          context.beginPath();
          context.roundRect(x * w + 1.5 * line, y * h + 1.5 * line, w - 3 * line, h - 3 * line,
            line * 2);
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
