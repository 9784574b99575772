/* Binary tokens: a row of numbers without a place in the picture. They are shown as a raster, one
   column a token and one row a bit; what can be done with them is said and offered here: keep the
   first tokens and go on, decode the same ones at another size. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  nitro.NO_PLACES = "Tokens of this model have no place in the picture, so no part of it can be freed. "
    + "Keep its first tokens (below the picture), fork one of its steps, or start from a sketch with "
    + "some freedom.";

  class Bits {
    constructor(stage) {
      const find = (name) => stage.root.querySelector(name);
      this.box = find(".nc-bits");
      this.canvas = find(".nc-raster");
      this.size = find(".nc-size");
      this.keep = find(".nc-prefix");
      this.kept = find(".nc-prefix-count");
      this.words = find(".nc-bits-words");
      this.certain = find(".nc-certain");
      this.shown = null; // {bits, tokens, count}
      this.certain.addEventListener("click", () => {
        const on = this.certain.getAttribute("aria-pressed") !== "true";
        this.certain.setAttribute("aria-pressed", String(on));
        this.draw();
      });
      this.size.addEventListener("change", () => this.resize());
      this.keep.addEventListener("input", () => { this.label(); this.draw(); });
      this.keep.addEventListener("change", () => this.goOn());
    }

    /* Another variant was chosen. */
    follow(card) {
      const tokens = card?.tokens || 0;
      this.box.hidden = !tokens;
      if (!tokens) return;
      const before = Number(this.size.value) || 0;
      this.size.replaceChildren(...card.sizes.map((side) => new Option(`${side} px`, side)));
      this.size.value = card.sizes.includes(before) ? before : card.resolution;
      this.size.parentElement.hidden = card.sizes.length < 2;
      if (Number(this.keep.max) !== tokens - 1) {
        this.keep.max = tokens - 1;
        this.keep.value = 0;
        this.shown = null;
      }
      this.label();
      this.draw();
    }

    /* The part of a request that is set here. */
    fields(card) {
      return card?.sizes.length > 1 ? { size: Number(this.size.value) || card.resolution } : {};
    }

    setSize(side) {
      if (Array.from(this.size.options).some((option) => Number(option.value) === side)) {
        this.size.value = side;
      }
    }

    /* The bits of a step or of a finished picture; null where there are none. */
    show(header) {
      if (!header?.bits) {
        this.shown = null;
        this.words.textContent = "The bits of this picture are not kept; draw it again to see them.";
        this.draw();
        return;
      }
      const bytes = Uint8Array.from(atob(header.bits), (letter) => letter.charCodeAt(0));
      const [tokens, count] = header.bits_shape;
      this.shown = { bytes, tokens, count, there: header.committed };
      this.draw();
      let sure = 0;
      for (const byte of bytes) sure += byte & 127;
      this.words.textContent = `${tokens} tokens of ${count} bits, `
        + `${Math.round((100 * sure) / (127 * bytes.length))} % certain`;
      this.canvas.setAttribute("aria-label", `Bits of the picture: ${this.words.textContent}`);
    }

    draw() {
      const { canvas, shown } = this;
      if (this.box.hidden) return;
      const style = getComputedStyle(this.box);
      const paper = style.getPropertyValue("--nc-bit-none").trim() || "#8884";
      const context = canvas.getContext("2d");
      if (!shown) {
        canvas.width = Number(this.keep.max) + 1;
        canvas.height = 16;
        context.fillStyle = paper;
        context.fillRect(0, 0, canvas.width, canvas.height);
        return;
      }
      const { bytes, tokens, count, there } = shown;
      if (canvas.width !== tokens) canvas.width = tokens;
      if (canvas.height !== count) canvas.height = count;
      const image = context.createImageData(tokens, count);
      const heat = this.certain.getAttribute("aria-pressed") === "true";
      const first = Number(this.keep.value);
      for (let token = 0; token < tokens; token += 1) {
        const missing = there && there[token][0] === 0;
        for (let bit = 0; bit < count; bit += 1) {
          const byte = bytes[token * count + bit];
          const at = 4 * (bit * tokens + token);
          const colour = missing ? [128, 128, 128, 70]
            : heat ? warm((byte & 127) / 127)
            : byte & 128 ? [245, 245, 245, 255] : [20, 22, 28, 255];
          if (token < first) colour[2] = Math.min(255, colour[2] + 70); // kept ones are bluish
          image.data.set(colour, at);
        }
      }
      context.putImageData(image, 0, 0);
    }

    label() {
      const first = Number(this.keep.value);
      this.kept.textContent = first ? `${first} of ${Number(this.keep.max) + 1}` : "none";
      this.keep.setAttribute("aria-valuetext", first ? `the first ${first} tokens` : "none");
    }

    /* Another base was chosen, or none: no token is kept any more. */
    keepNone() {
      if (Number(this.keep.value) === 0) return;
      this.keep.value = 0;
      this.label();
      this.draw();
    }

    /* The same steps lead to the picture at another size: the timeline stays. */
    resize() {
      if (!nitro.runs.result && !nitro.runs.current) return;
      if (!nitro.runs.current) nitro.film.carryOver();
      nitro.run();
    }

    /* The first tokens of the finished picture stay, the others are drawn anew. */
    goOn() {
      const first = Number(this.keep.value);
      const { result } = nitro.runs;
      if (!first) {
        if (nitro.base()?.kind === "prefix") nitro.setBase(null);
        return void nitro.schedule();
      }
      const card = nitro.card();
      if (!result?.picture || nitro.card(result.settings.variant)?.geometry !== card.geometry) {
        this.keep.value = 0;
        this.label();
        this.draw();
        nitro.say("Draw a picture with this model first; then its first tokens can be kept.", "warn");
        return;
      }
      const before = nitro.base()?.kind === "prefix" ? nitro.base().picture : result.picture;
      nitro.setBase({
        kind: "prefix",
        picture: before,
        geometry: card.geometry,
        words: `The first ${first} tokens stay; the others follow your prompt, seed and model.`,
        fields: () => ({ picture: before,
          free: "0".repeat(first) + "1".repeat(Number(this.keep.max) + 1 - first) }),
      });
      nitro.run({ forced: true });
    }
  }

  /* Certainty as a colour: dark violet for a guess, yellow for sure. */
  function warm(share) {
    return [40 + 210 * share, 20 + 200 * share ** 1.5, 70 + 40 * (1 - share), 255].map(Math.round);
  }

  nitro.Bits = Bits;
})(window.nitro);
