/* What the pointer does on the canvas (look, repaint, sketch), the keyboard shortcuts, and the sheet
   that lists them. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const find = (name) => nitro.stage.root.querySelector(name);
  const click = (name) => () => find(name).click();

  /* Mode and what belongs to it. Leaving repaint or sketch keeps the picture, not what steered it. */
  nitro.setMode = function (mode) {
    const { root } = nitro.stage;
    const before = root.dataset.mode;
    if (before === mode) return;
    if (mode === "paint" && nitro.card()?.tokens) return void nitro.say(nitro.NO_PLACES, "warn");
    root.dataset.mode = mode;
    root.querySelectorAll("[data-choose]").forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset.choose === mode));
    });
    find(".nc-paint-tools").hidden = mode !== "paint";
    find(".nc-draw-tools").hidden = find(".nc-pad").hidden = mode !== "draw";
    find(".nc-mask").tabIndex = mode === "paint" ? 0 : -1;
    if (before === "paint") nitro.paint.forget();
    if (before === "draw" && nitro.base()?.kind === "sketch") nitro.setBase(null);
    if (mode !== "look" && nitro.base()?.kind === "fork") nitro.setBase(null);
    if (mode === "paint") {
      nitro.film.show(nitro.film.frames.length - 1);
      nitro.say("Paint over what should change; Shift draws an outline. Only these cells are drawn anew.");
    }
    if (mode === "draw") nitro.pad.enter();
    nitro.stage.drawOverlay();
    nitro.paint.draw();
  };

  function resize(by) {
    const slider = find(nitro.stage.root.dataset.mode === "draw" ? ".nc-pen-size" : ".nc-brush-size");
    if (by > 0) slider.stepUp();
    else slider.stepDown();
  }

  const inPaint = (act) => () => { if (nitro.stage.root.dataset.mode === "paint") act(); };

  /* key: [what it does in words, what it does] */
  const KEYS = {
    v: ["Look at the picture", () => nitro.setMode("look")],
    p: ["Repaint cells", () => nitro.setMode("paint")],
    d: ["Sketch", () => nitro.setMode("draw")],
    g: ["Show or hide tokens", click(".nc-toggle")],
    h: ["Show or hide the order of the tokens", click(".nc-heat")],
    " ": ["Play the steps", () => nitro.film.play()],
    ",": ["A step back", () => nitro.film.step(-1)],
    ".": ["A step on", () => nitro.film.step(1)],
    f: ["Fork here", () => nitro.film.forkHere()],
    r: ["Roll the seed", () => nitro.push({ seed: nitro.rollSeed() })],
    b: ["Brush", inPaint(click(".nc-brush"))],
    e: ["Eraser", inPaint(click(".nc-eraser"))],
    i: ["Invert the choice", inPaint(click(".nc-invert"))],
    x: ["Clear the choice", inPaint(click(".nc-clear"))],
    k: ["Keep the repainted picture", inPaint(click(".nc-keep"))],
    "[": ["Smaller brush", () => resize(-1)],
    "]": ["Larger brush", () => resize(1)],
    s: ["Save as PNG", () => nitro.save()],
    l: ["Copy a link", () => nitro.copyLink()],
    "?": ["This sheet", () => nitro.help()],
  };
  const ALWAYS = [["Ctrl+Enter", "Draw now"], ["Escape", "Stop"], ["Ctrl+Z", "Undo"],
    ["Ctrl+Shift+Z", "Redo"], ["Shift+drag", "Outline of cells, in Repaint"]];

  nitro.help = function () {
    const dialog = document.querySelector(".nc-help");
    const rows = [...ALWAYS, ...Object.entries(KEYS).map(([key, [words]]) =>
      [key === " " ? "Space" : key.toUpperCase(), words])];
    dialog.querySelector("dl").replaceChildren(...rows.flatMap(([key, words]) => {
      const dt = document.createElement("dt");
      const kbd = document.createElement("kbd");
      const dd = document.createElement("dd");
      kbd.textContent = key;
      dd.textContent = words;
      dt.append(kbd);
      return [dt, dd];
    }));
    if (!dialog.open) dialog.showModal();
  };

  nitro.listenToKeys = function (promptBox) {
    document.addEventListener("keydown", (event) => {
      if (event.isComposing || document.querySelector("dialog[open]")) return;
      const { target, key } = event;
      if (document.body.classList.contains("off-live") && key !== "?") return;
      const command = event.ctrlKey || event.metaKey;
      const writing = target.matches("textarea, select, input:not([type=range])");
      if (key === "Escape") nitro.stop();
      if (key === "Enter" && command && target !== promptBox) nitro.generate();
      if (writing || event.altKey) return;
      if (command) {
        if (!["z", "y"].includes(key.toLowerCase())) return;
        event.preventDefault();
        nitro.again(key.toLowerCase() === "y" || event.shiftKey);
        return;
      }
      if (key === " " && target.closest("button, input, summary")) return; // it presses that
      const act = KEYS[key.length === 1 ? key.toLowerCase() : key]?.[1];
      if (!act) return;
      event.preventDefault();
      act();
    });
    document.addEventListener("dragover", (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
    document.addEventListener("drop", (event) => {
      const file = event.dataTransfer?.files[0];
      if (!file) return;
      event.preventDefault();
      nitro.takeFile(file);
    });
    document.addEventListener("paste", (event) => {
      const file = event.clipboardData?.files[0];
      if (!file?.type.startsWith("image/")) return;
      event.preventDefault();
      nitro.takeFile(file);
    });
  };

  /* Undo or redo, on the pad while sketching, else over pictures. */
  nitro.again = function (forwards) {
    const sketching = nitro.stage.root.dataset.mode === "draw" && !nitro.pad.empty;
    const owner = sketching ? nitro.pad : nitro;
    if (forwards) owner.redo();
    else owner.undo();
  };
})(window.nitro);
