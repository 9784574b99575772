/* Finished pictures, kept in this browser (IndexedDB): a strip to go back to each of them, with all
   settings, across reloads. Where storage is forbidden the strip lasts as long as the page. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const NAME = "nitro-canvas";
  const KEPT = 200;
  const KEPT_BYTES = 48 << 20;
  const SHELF = 60; // shown; the others are still in the zip

  let database = null;
  let entries = []; // newest first: {id, at, settings, blob}
  let shelf = null;
  let urls = new Map();

  const request = (made) => new Promise((done, failed) => {
    made.onsuccess = () => done(made.result);
    made.onerror = () => failed(made.error);
  });

  async function open() {
    try {
      const opening = indexedDB.open(NAME, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("pictures", { keyPath: "id" });
      database = await request(opening);
      database.onversionchange = () => database.close();
      return await request(store("readonly").getAll());
    } catch {
      database = null;
      return [];
    }
  }

  const store = (mode) => database.transaction("pictures", mode).objectStore("pictures");

  nitro.openHistory = async function (root) {
    shelf = root.querySelector(".nc-shelf");
    shelf.addEventListener("click", (event) => {
      const id = event.target.closest("button")?.dataset.id;
      const entry = entries.find((each) => each.id === id);
      if (entry) back(entry);
    });
    root.querySelector(".nc-zip").addEventListener("click", () => nitro.zipHistory(entries));
    root.querySelector(".nc-forget").addEventListener("click", forget);
    const stored = await open();
    const known = new Set(entries.map((entry) => entry.id)); // drawn while it opened
    entries = [...entries, ...stored.filter((entry) => !known.has(entry.id))]
      .sort((a, b) => b.at - a.at);
    paint();
    root.dataset.history = entries.length;
  };

  nitro.historySize = () => entries.length;

  /* Add a finished picture. The same settings again move it to the front. */
  nitro.keepInHistory = function ({ settings, blob, name, picture }) {
    const id = JSON.stringify(settings);
    const entry = { id, at: Date.now(), settings, blob, name, picture };
    entries = [entry, ...entries.filter((each) => each.id !== id)];
    const bytes = (list) => list.reduce((sum, each) => sum + each.blob.size, 0);
    const dropped = [];
    while (entries.length > KEPT || (entries.length > 1 && bytes(entries) > KEPT_BYTES)) {
      dropped.push(entries.pop());
    }
    paint();
    if (!database) return;
    try {
      const shelves = store("readwrite");
      const { name: _, picture: __, ...lasting } = entry; // the server's names do not last
      shelves.put(lasting).onerror = (event) => event.preventDefault(); // the quota is used up
      dropped.forEach((each) => shelves.delete(each.id));
    } catch { /* closed by another tab's newer page: the strip lasts as long as this one */ }
  };

  function forget() {
    entries = [];
    paint();
    if (database) store("readwrite").clear();
    nitro.say("The history of this browser is empty now.");
  }

  function paint() {
    const { root } = nitro.stage;
    root.querySelector(".nc-history").hidden = !entries.length;
    root.dataset.history = entries.length;
    const shown = entries.slice(0, SHELF);
    const fresh = new Map();
    shelf.replaceChildren(...shown.map((entry) => {
      const url = urls.get(entry.blob) || URL.createObjectURL(entry.blob);
      fresh.set(entry.blob, url);
      const item = document.createElement("li");
      const button = document.createElement("button");
      const image = new Image(64, 64);
      image.src = url;
      image.loading = "lazy";
      image.alt = entry.settings.prompt;
      button.type = "button";
      button.dataset.id = entry.id;
      button.title = `${entry.settings.prompt} · ${entry.settings.variant} · seed ${entry.settings.seed}`;
      button.append(image);
      item.append(button);
      return item;
    }));
    urls.forEach((url, blob) => { if (!fresh.has(blob)) URL.revokeObjectURL(url); });
    urls = fresh;
  }

  /* A picture of the strip again, with its prompt and settings. Nothing is drawn for it. */
  async function back(entry) {
    nitro.stop();
    nitro.setMode("look");
    nitro.setBase(null);
    const bitmap = await createImageBitmap(entry.blob);
    const { settings } = entry;
    nitro.applySettings(settings);
    nitro.showMoment({
      picture: bitmap,
      frames: [],
      result: { name: entry.name || "", picture: entry.picture || "", settings, grid: null,
        steps: 0, step: "–", first: "kept", total: "kept", base: null, blob: entry.blob,
        key: nitro.keyNow(settings.prompt) },
    });
    bitmap.close();
    nitro.say("From the history, with its settings.", "quiet");
  }
})(window.nitro);
