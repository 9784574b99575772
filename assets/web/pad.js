/* Sketch: a pad beside the picture. What is drawn or loaded there is sent while it is drawn, and
   the model follows it as closely as "Freedom" says. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const COLOURS = ["#ffffff", "#161616", "#d23232", "#f08c1e", "#f5d228", "#3ca046", "#28aaa0",
    "#3264dc", "#8246be", "#f08cb4", "#78502d", "#969696"];
  const DEPTH = 24;
  const TOLD = { NotAllowedError: "The browser does not allow the camera here.",
    NotFoundError: "No camera was found." };

  class Pad {
    constructor(stage) {
      const find = (name) => stage.root.querySelector(name);
      this.stage = stage;
      this.find = find;
      this.canvas = find(".nc-sketch");
      this.pen = this.canvas.getContext("2d", { willReadFrequently: true });
      this.colour = COLOURS[7];
      this.last = null; // where the pen is while it is down
      this.past = []; // ImageData, oldest first
      this.future = [];
      this.empty = true;
      this.changed = 0; // counts changes; `sent` is the newest that the server has
      this.sent = 0;
      this.busy = false;
      this.wipe("#ffffff");
      this.listen();
      this.swatches();
    }

    listen() {
      const { canvas, find } = this;
      canvas.addEventListener("pointerdown", (event) => this.down(event));
      canvas.addEventListener("pointermove", (event) => this.move(event));
      for (const end of ["pointerup", "pointercancel"]) {
        canvas.addEventListener(end, () => { if (this.last) { this.last = null; this.send(); } });
      }
      find(".nc-colour").addEventListener("input", (event) => this.choose(event.target.value));
      find(".nc-fill").addEventListener("click", () => this.fill());
      find(".nc-load").addEventListener("click", () => find(".nc-file").click());
      find(".nc-file").addEventListener("change", (event) => {
        if (event.target.files[0]) this.load(event.target.files[0]);
        event.target.value = "";
      });
      find(".nc-camera").addEventListener("click", () => this.snap());
      find(".nc-take").addEventListener("click", () => {
        if (this.stage.finished) this.put(this.stage.finished);
      });
      find(".nc-strength").addEventListener("input", () => {
        nitro.remember({ strength: Number(find(".nc-strength").value) });
        if (!this.empty) this.send();
      });
    }

    swatches() {
      const box = this.find(".nc-swatches");
      box.replaceChildren(...COLOURS.map((colour) => {
        const button = document.createElement("button");
        button.type = "button";
        button.style.background = colour;
        button.title = colour;
        button.setAttribute("aria-label", `Colour ${colour}`);
        button.addEventListener("click", () => this.choose(colour));
        return button;
      }));
      this.choose(this.colour);
    }

    choose(colour) {
      this.colour = colour;
      this.find(".nc-colour").value = colour;
      this.find(".nc-swatches").childNodes.forEach((button, i) => {
        button.setAttribute("aria-pressed", String(COLOURS[i] === colour));
      });
    }

    at(event) {
      const box = this.canvas.getBoundingClientRect();
      const scale = this.canvas.width / box.width;
      return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    }

    down(event) {
      if (event.button > 0) return;
      event.preventDefault();
      this.canvas.setPointerCapture(event.pointerId);
      this.keepPast();
      this.last = this.at(event);
      this.line(this.last);
    }

    move(event) {
      if (!this.last) return;
      event.preventDefault();
      const events = event.getCoalescedEvents?.() || [];
      for (const each of events.length ? events : [event]) this.line(this.at(each));
      this.send();
    }

    line(to) {
      const { pen } = this;
      pen.strokeStyle = this.colour;
      pen.lineWidth = Number(this.find(".nc-pen-size").value);
      pen.lineCap = pen.lineJoin = "round";
      pen.beginPath();
      pen.moveTo(...this.last);
      pen.lineTo(...to);
      pen.stroke();
      this.last = to;
      this.touched();
    }

    touched() {
      this.empty = false;
      this.changed += 1;
      this.find(".nc-pad").classList.add("has-sketch");
    }

    wipe(colour) {
      this.pen.fillStyle = colour;
      this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    }

    fill() {
      this.keepPast();
      this.wipe(this.colour);
      this.touched();
      this.send();
    }

    keepPast() {
      this.past = [...this.past.slice(1 - DEPTH), this.image()];
      this.future = [];
    }

    image() { return this.pen.getImageData(0, 0, this.canvas.width, this.canvas.height); }

    undo() { this.swap(this.past, this.future); }

    redo() { this.swap(this.future, this.past); }

    swap(from, to) {
      const image = from.pop();
      if (!image) return;
      to.push(this.image());
      this.pen.putImageData(image, 0, 0);
      this.touched();
      this.send();
    }

    /* A picture onto the pad, its middle square. */
    put(source) {
      this.keepPast();
      const { width, height } = source;
      const side = Math.min(width, height);
      this.pen.drawImage(source, (width - side) / 2, (height - side) / 2, side, side, 0, 0,
        this.canvas.width, this.canvas.height);
      this.touched();
      this.send();
    }

    /* A file. What the browser cannot read the server may. */
    async load(file) {
      try {
        let bitmap;
        try {
          bitmap = await createImageBitmap(file);
        } catch {
          const { picture } = await sendPicture(file);
          bitmap = await createImageBitmap(await (await nitro.call(`canvas/picture/${picture}.png`)).blob());
        }
        nitro.setMode("draw");
        this.put(bitmap);
        bitmap.close();
      } catch (error) {
        nitro.say(error.message, "error");
      }
    }

    async snap() {
      let stream = null;
      try {
        if (!navigator.mediaDevices) throw new Error("The browser gives cameras to https pages only.");
        stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "user" } });
        const video = document.createElement("video");
        video.muted = video.playsInline = true;
        video.srcObject = stream;
        await video.play();
        await new Promise((done) => { setTimeout(done, 400); }); // the exposure settles
        this.put(await createImageBitmap(video));
      } catch (error) {
        nitro.say(TOLD[error.name] || error.message, "error");
      } finally {
        stream?.getTracks().forEach((track) => track.stop());
      }
    }

    /* What is on the pad, to the server; one at a time, and the newest at last. */
    async send() {
      if (this.busy) return;
      this.busy = true;
      try {
        while (this.sent !== this.changed || this.wanted !== this.strength()) {
          const now = this.changed;
          if (this.sent !== now) this.picture = await nitro.sendCanvas(this.canvas);
          this.sent = now;
          this.wanted = this.strength();
          if (this.stage.root.dataset.mode !== "draw") break;
          this.steer();
          nitro.run();
          await this.drawn();
        }
      } catch (error) {
        this.sent = this.changed;
        nitro.say(error.message, "error");
      } finally {
        this.busy = false;
      }
    }

    strength() { return Number(this.find(".nc-strength").value); }

    /* While the pen is down the next sketch waits for this one's picture, else none would be seen. */
    async drawn() {
      while (this.last && nitro.runs.current) await new Promise((done) => { setTimeout(done, 15); });
    }

    steer() {
      nitro.setBase({
        kind: "sketch",
        fields: () => ({ picture: this.picture, strength: this.strength() }),
        renew: async () => { this.picture = await nitro.sendCanvas(this.canvas); },
      });
    }

    /* The mode was entered: what is there already is followed again. */
    enter() {
      if (!this.empty && this.picture) {
        this.steer();
        nitro.run();
      }
    }
  }

  async function sendPicture(blob) {
    const response = await nitro.call("canvas/picture", { method: "POST", body: blob,
      headers: { "content-type": "application/octet-stream" } });
    return response.json();
  }

  /* A canvas's pixels to the server; resolves to their name there. */
  nitro.sendCanvas = async function (canvas) {
    const blob = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
    return (await sendPicture(blob)).picture;
  };

  nitro.Pad = Pad;
})(window.nitro);
