/* Settings that travel: in a link, in a PNG that is dropped on the page, in a zip of the history. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const CARRIED = ["variant", "ar_iterations", "flow_steps", "cfg_scale", "cfg_schedule",
    "temperature", "seed"];
  const PNG = [137, 80, 78, 71, 13, 10, 26, 10];
  const MARK = "nitro-canvas";

  nitro.copyLink = async function () {
    const settings = nitro.runs.result?.settings;
    if (!settings) return;
    const link = new URL(location.href);
    link.hash = "";
    link.search = new URLSearchParams({ prompt: settings.prompt,
      ...Object.fromEntries(CARRIED.map((key) => [key, settings[key]])),
      ...(settings.size ? { size: settings.size } : {}) });
    try {
      await navigator.clipboard.writeText(link.href);
      const started = settings.picture || settings.fork_of;
      nitro.say(started ? "Link copied. It carries the settings, not the picture this one began with."
        : "Link copied: whoever opens it gets this picture.");
    } catch { // no clipboard without https or permission
      history.replaceState(null, "", link);
      nitro.say("The link is in the address bar now; copy it from there.");
    }
  };

  /* What a link asks for, or null. */
  nitro.linkSettings = function () {
    const query = new URLSearchParams(location.search);
    if (!query.has("prompt")) return null;
    const out = { prompt: query.get("prompt") };
    for (const key of CARRIED) {
      if (!query.has(key)) continue;
      const text = query.get(key);
      out[key] = ["variant", "cfg_schedule"].includes(key) ? text : Number(text);
    }
    if (query.has("size")) out.size = Number(query.get("size"));
    return out;
  };

  /* Set prompt and controls from a picture's settings. */
  nitro.applySettings = function (settings) {
    const known = nitro.config.variants.some((card) => card.id === settings.variant);
    const values = { lock: true };
    for (const key of CARRIED) {
      if (!(key in settings) || (key === "variant" && !known)) continue;
      values[key] = nitro.allowedSetting(key, settings[key], settings.variant);
    }
    nitro.quietly(() => nitro.push(values));
    nitro.onVariant?.();
    if (settings.size) nitro.bits.setSize(Number(settings.size));
    nitro.pushPrompt(settings.prompt);
    nitro.remember({ prompt: settings.prompt });
    if (!known) nitro.say(`This server has no ${settings.variant}; the other settings are set.`, "warn");
  };

  /* What the page's address asks for, once. */
  nitro.readLink = function () {
    const settings = nitro.linkSettings();
    if (!settings) return null;
    const clean = new URL(location.href);
    ["prompt", "size", ...CARRIED].forEach((key) => clean.searchParams.delete(key));
    history.replaceState(null, "", clean); // a reload keeps what was changed since
    return settings;
  };

  /* The settings inside a PNG made here (an iTXt chunk), or null. */
  nitro.settingsIn = async function (file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (PNG.some((value, i) => bytes[i] !== value)) return null;
    const view = new DataView(bytes.buffer);
    for (let at = 8; at + 12 <= bytes.length;) {
      const size = view.getUint32(at);
      const kind = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
      if (kind === "iTXt") {
        const chunk = bytes.subarray(at + 8, at + 8 + size);
        const key = new TextDecoder("latin1").decode(chunk.subarray(0, chunk.indexOf(0)));
        if (key === MARK) { // keyword 0, uncompressed 0 0, language 0, translated keyword 0
          let start = MARK.length + 3;
          for (let zeros = 0; zeros < 2; start += 1) if (chunk[start] === 0) zeros += 1;
          return JSON.parse(new TextDecoder().decode(chunk.subarray(start)));
        }
      }
      at += 12 + size;
    }
    return null;
  };

  /* A file dropped or pasted anywhere: settings come back, other pictures go to the sketch. */
  nitro.takeFile = async function (file) {
    let settings = null;
    try { settings = await nitro.settingsIn(file); } catch { /* no settings, or damaged ones */ }
    location.hash = "live";
    if (!settings) return void nitro.pad.load(file);
    nitro.setMode("look");
    nitro.setBase(null);
    nitro.applySettings(settings);
    nitro.run({ forced: true });
    if (settings.picture || settings.fork_of) {
      nitro.say("Its settings are back, but not the picture it began with.", "warn");
    }
  };

  /* A PNG with settings inside, as the server writes them: an iTXt chunk behind the header. */
  nitro.withSettings = async function (blob, settings) {
    const bytes = new Uint8Array(await blob.arrayBuffer());
    const escaped = JSON.stringify(settings).replace(/[^\x20-\x7e]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    const body = new TextEncoder().encode(`iTXt${MARK}\0\0\0\0\0${escaped}`);
    const chunk = new DataView(new ArrayBuffer(body.length + 8));
    new Uint8Array(chunk.buffer).set(body, 4);
    chunk.setUint32(0, body.length - 4);
    chunk.setUint32(body.length + 4, crc32(body));
    const after = 8 + 25; // signature and IHDR
    return new Blob([bytes.subarray(0, after), chunk.buffer, bytes.subarray(after)],
      { type: "image/png" });
  };

  /* --- a zip of stored (uncompressed) files: pictures are compressed already -------------- */

  const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
    let value = n;
    for (let k = 0; k < 8; k += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
    return value;
  });

  function crc32(bytes) {
    let crc = 0xffffffff;
    for (const byte of bytes) crc = TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
    return (crc ^ 0xffffffff) >>> 0;
  }

  /* [[name, Uint8Array], ...] to a Blob; ZIP as in PKWARE's APPNOTE, names in UTF-8. */
  nitro.zip = function (files) {
    const parts = [];
    const directory = [];
    let offset = 0;
    for (const [name, bytes] of files) {
      const path = new TextEncoder().encode(name);
      const common = [0x14, 0x800, 0, 0, 0x21]; // version, UTF-8, stored, midnight, 1 Jan 1980
      const head = new DataView(new ArrayBuffer(46));
      head.setUint32(0, 0x02014b50, true);
      head.setUint16(4, 0x14, true);
      common.forEach((value, i) => head.setUint16(6 + 2 * i, value, true));
      head.setUint32(16, crc32(bytes), true);
      head.setUint32(20, bytes.length, true);
      head.setUint32(24, bytes.length, true);
      head.setUint16(28, path.length, true);
      head.setUint32(42, offset, true);
      const local = new Uint8Array(30); // the same fields, one place on, without the last ones
      local.set([0x50, 0x4b, 3, 4]);
      local.set(new Uint8Array(head.buffer, 6, 26), 4);
      parts.push(local, path, bytes);
      directory.push(new Uint8Array(head.buffer), path);
      offset += 30 + path.length + bytes.length;
    }
    const end = new DataView(new ArrayBuffer(22));
    end.setUint32(0, 0x06054b50, true);
    end.setUint16(8, files.length, true);
    end.setUint16(10, files.length, true);
    end.setUint32(12, directory.reduce((sum, part) => sum + part.length, 0), true);
    end.setUint32(16, offset, true);
    return new Blob([...parts, ...directory, new Uint8Array(end.buffer)], { type: "application/zip" });
  };

  nitro.zipHistory = async function (entries) {
    const width = String(entries.length).length;
    const files = [];
    const lines = [];
    for (const [i, { settings, blob }] of [...entries].reverse().entries()) {
      const name = `${String(i + 1).padStart(width, "0")}-${nitro.slug(settings.prompt)}-${settings.seed}.jpg`;
      files.push([name, new Uint8Array(await blob.arrayBuffer())]);
      lines.push(JSON.stringify({ file_name: name, ...settings }));
    }
    files.push(["metadata.jsonl", new TextEncoder().encode(`${lines.join("\n")}\n`)]);
    nitro.downloadBlob(nitro.zip(files), "nitro-canvas.zip");
  };
})(window.nitro);
