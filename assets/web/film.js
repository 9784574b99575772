/* The steps of a picture, kept in the browser: a filmstrip, a timeline to move through them, and
   the place to fork from. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const THUMBS = 10;
  const THUMB_PX = 48;
  const FRAME_PX = 512; // larger frames are kept smaller: twenty of them have to fit in memory
  const FRAME_MS = 1000 / 30;

  class Film {
    constructor(stage) {
      const find = (name) => stage.root.querySelector(name);
      this.stage = stage;
      this.timeline = find(".nc-timeline");
      this.strip = find(".nc-film");
      this.scrub = find(".nc-scrub");
      this.fork = find(".nc-fork");
      this.frames = []; // of the finished picture: {index, total, grid, source}
      this.recording = null;
      this.carried = null;
      this.recorded = Promise.resolve(); // when the bitmaps of the last film are there
      this.at = 0;
      this.playing = 0;
      this.scrub.addEventListener("input", () => this.show(Number(this.scrub.value)));
      find(".nc-play").addEventListener("click", () => this.play());
      this.fork.addEventListener("click", () => this.forkHere());
      this.strip.addEventListener("click", (event) => {
        const at = event.target.dataset.at;
        if (at) this.show(Number(at));
      });
    }

    /* A run begins. A fork begins with the steps it takes over. */
    begin(base, draft) {
      this.stopPlaying();
      const { carried } = this;
      this.carried = null;
      if (draft) return void (this.recording = null);
      this.recording = carried
        || (base?.kind === "fork" ? base.frames.map((frame) => ({ ...frame })) : []);
      this.timeline.classList.add("is-old");
      this.setForkable();
    }

    /* The next run gives the same picture in another form; its steps are those that are here. */
    carryOver() { this.carried = this.frames.slice(0, -1).map((frame) => ({ ...frame })); }

    add(header, blob) {
      if (!this.recording || !blob) return;
      this.recording.push({ index: header.index, total: header.total, grid: header.committed,
        noise: header.noise, bits: nitro.rasterOf(header), blob });
    }

    finish(header, blob) {
      const frames = this.recording || [];
      this.recording = null;
      const last = frames.at(-1);
      if (last?.index === header.steps) frames.pop(); // the finished picture is that step's
      frames.push({ index: header.steps, total: header.steps, grid: header.committed,
        bits: nitro.rasterOf(header), blob });
      this.load(frames);
    }

    /* Another picture's film; none where its steps are not known. */
    load(frames) {
      this.stopPlaying();
      const mine = this.frames = frames;
      this.at = frames.length - 1;
      this.timeline.classList.remove("is-old");
      this.timeline.hidden = frames.length < 2;
      this.stage.root.dataset.frames = frames.length;
      this.scrub.max = Math.max(1, frames.length - 1);
      this.scrub.value = this.at;
      this.describe();
      this.setForkable();
      this.recorded = this.decode(frames).then(() => { if (this.frames === mine) this.thumbs(); });
    }

    async decode(frames) {
      for (const frame of frames) {
        if (frame.source) continue;
        const bitmap = await createImageBitmap(frame.blob);
        if (bitmap.width <= FRAME_PX) frame.source = bitmap;
        else {
          frame.source = await createImageBitmap(bitmap,
            { resizeWidth: FRAME_PX, resizeHeight: FRAME_PX, resizeQuality: "medium" });
          bitmap.close();
        }
      }
    }

    thumbs() {
      const { frames } = this;
      const count = Math.min(THUMBS, frames.length);
      this.strip.replaceChildren(...Array.from({ length: count }, (_, n) => {
        const at = count < 2 ? 0 : Math.round((n * (frames.length - 1)) / (count - 1));
        const thumb = document.createElement("canvas");
        thumb.width = thumb.height = THUMB_PX;
        thumb.dataset.at = at;
        thumb.getContext("2d").drawImage(frames[at].source, 0, 0, THUMB_PX, THUMB_PX);
        return thumb;
      }));
    }

    /* Show the frame at a place of the timeline; at its end the finished picture. */
    show(at, quietly = false) {
      if (!quietly) this.stopPlaying();
      const { frames, stage } = this;
      if (nitro.runs.current || !frames[at]?.source) return;
      this.at = at;
      if (Number(this.scrub.value) !== at) this.scrub.value = at;
      const frame = frames[at];
      if (at === frames.length - 1) {
        stage.restoreFinished();
        nitro.runs.showResult();
      } else {
        stage.peek(frame.source, frame.grid, frame.index, frame.total);
        nitro.bits.show(frame.bits);
        const noise = frame.noise === undefined || frame.noise === null ? ""
          : `, noise ${Math.round(100 * frame.noise)} %`;
        nitro.report.fact("step", `${frame.index} / ${frame.total}${noise}`);
      }
      this.describe();
      this.setForkable();
    }

    describe() {
      const frame = this.frames[this.at];
      if (!frame) return;
      this.scrub.setAttribute("aria-valuetext", `step ${frame.index} of ${frame.total}`);
      this.stage.root.dataset.at = frame.index;
    }

    setForkable() {
      const frame = this.frames[this.at];
      this.fork.disabled = Boolean(nitro.runs.current) || !frame || frame.index >= frame.total
        || !nitro.runs.result?.picture;
    }

    step(by) {
      if (this.frames.length > 1) this.show(
        Math.min(this.frames.length - 1, Math.max(0, this.at + by)));
    }

    play() {
      if (this.playing) return void this.stopPlaying();
      if (this.frames.length < 2 || nitro.runs.current) return;
      const began = performance.now();
      const from = this.at === this.frames.length - 1 ? 0 : this.at;
      const tick = (now) => {
        const at = from + Math.floor((now - began) / FRAME_MS);
        if (at !== this.at || at === from) this.show(Math.min(at, this.frames.length - 1), true);
        if (at < this.frames.length - 1) this.playing = requestAnimationFrame(tick);
        else this.stopPlaying();
      };
      this.playing = requestAnimationFrame(tick);
      this.timeline.classList.add("is-playing");
    }

    stopPlaying() {
      cancelAnimationFrame(this.playing);
      this.playing = 0;
      this.timeline.classList.remove("is-playing");
    }

    forkHere() {
      const { result } = nitro.runs;
      const frame = this.frames[this.at];
      if (this.fork.disabled) return;
      nitro.setMode("look");
      const { picture } = result;
      nitro.setBase({
        kind: "fork",
        geometry: nitro.card(result.settings.variant).geometry,
        frames: this.frames.slice(0, this.at + 1),
        words: `Forked after step ${frame.index} of ${frame.total}: those steps stay, the rest follows `
          + "your prompt, seed, CFG scale and model.",
        fields: () => ({ fork_of: picture, fork_step: frame.index }),
      });
      nitro.say("Change the prompt, or press Generate for another ending.");
    }
  }

  nitro.Film = Film;
})(window.nitro);
