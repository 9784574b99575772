/* The settings: what the controls hold, what survives a reload, what a variant allows. Gradio's
   controls report here (`controls`), and are set from here through one event (`push`/`merge`). */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const STORE = "nitro-canvas:settings";
  const WORDS = {
    ar_iterations: "AR iterations", flow_steps: "Flow steps", cfg_scale: "CFG scale",
    temperature: "Temperature", seed: "Seed", preview_every: "Preview interval",
  };

  /* Filled by the page: keys in the order of Gradio's inputs, variants' cards, limits. */
  nitro.config = nitro.config || { keys: [], variants: [], limits: {}, defaults: {} };
  nitro.settings = {};
  const IN_FLIGHT_MS = 1000;
  let pending = {}; // set from here, not yet reported back by Gradio's controls
  let pushedAt = 0;
  let restored = false;

  const card = (id = nitro.settings.variant) => nitro.config.variants.find((v) => v.id === id);

  function range(key, variant) {
    return card(variant)?.[key] ?? nitro.config.limits[key];
  }

  /* The value as the variant allows it; says what it changed. */
  function allowed(key, value, explain, variant) {
    const limit = WORDS[key] && range(key, variant);
    if (!limit || value === undefined) return value;
    if (value === null || value === "" || Number.isNaN(Number(value))) return limit.default;
    let number = Math.min(limit.high, Math.max(limit.low, Number(value)));
    if (!["cfg_scale", "temperature"].includes(key)) number = Math.round(number);
    if (number !== Number(value) && explain) {
      explain(`${WORDS[key]} goes from ${limit.low} to ${limit.high}; using ${number}.`);
    }
    return number;
  }

  function stored() {
    try { return JSON.parse(localStorage.getItem(STORE)) || {}; } catch { return {}; }
  }

  nitro.remember = function (extra) {
    if (!restored) return;
    try {
      localStorage.setItem(STORE, JSON.stringify({ ...stored(), ...nitro.settings, ...extra }));
    } catch { /* storage is full or forbidden: the page works without */ }
  };

  /* Any control changed. `values` come in the order of config.keys. */
  nitro.controls = function (...values) {
    const before = { ...nitro.settings };
    if (performance.now() - pushedAt > IN_FLIGHT_MS) pending = {};
    nitro.config.keys.forEach((key, i) => {
      if (key in pending && pending[key] !== values[i]) return; // how it was before the push
      delete pending[key];
      nitro.settings[key] = values[i];
    });
    if (!restored) return;
    const changed = nitro.config.keys.filter((key) => before[key] !== nitro.settings[key]);
    if (changed.length) nitro.onSettings?.(changed);
    correct(changed);
    nitro.remember();
  };

  /* A number that is not allowed goes out of its field, and not silently. An emptied field is left
     alone: somebody is about to type. */
  function correct(changed) {
    const wrong = changed.filter((key) => WORDS[key] && typeof nitro.settings[key] === "number"
      && allowed(key, nitro.settings[key]) !== nitro.settings[key]);
    if (!wrong.length) return;
    let words = "";
    nitro.push(Object.fromEntries(wrong.map((key) =>
      [key, allowed(key, nitro.settings[key], (text) => { words = text; })])));
    setTimeout(() => nitro.say(words, "warn"), 0);
  }

  /* Set controls: {seed: 5}. Gradio answers with `merge`, then `controls`. */
  nitro.push = function (values) {
    const changed = Object.keys(values).filter((key) => nitro.settings[key] !== values[key]);
    pending = { ...pending, ...values };
    pushedAt = performance.now();
    Object.assign(nitro.settings, values);
    nitro.trigger?.("submit");
    if (changed.length) nitro.onSettings?.(changed);
    nitro.remember();
  };

  /* `values` may be those of before an earlier push: what is known here comes first. */
  nitro.merge = function (...values) {
    return nitro.config.keys.map((key, i) => pending[key] ?? nitro.settings[key] ?? values[i]);
  };

  let pendingPrompt = null;
  nitro.pushPrompt = function (text) {
    pendingPrompt = text;
    document.querySelector("#nc-prompt textarea").value = text; // at once; Gradio learns it next
    nitro.trigger?.("select");
  };
  nitro.mergePrompt = (current) => (pendingPrompt === null ? current : pendingPrompt);

  nitro.variantDefaults = function (id) {
    const chosen = card(id);
    return chosen && {
      ar_iterations: chosen.ar_iterations.default,
      flow_steps: chosen.flow_steps.default,
      cfg_scale: chosen.cfg_scale.default,
    };
  };

  nitro.rollSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

  /* What this browser held last, brought within what today's server allows. */
  nitro.restore = function () {
    const kept = stored();
    const values = { ...nitro.config.defaults, seed: nitro.rollSeed() };
    if (card(kept.variant)) {
      values.variant = kept.variant;
      Object.assign(values, nitro.variantDefaults(kept.variant));
    }
    nitro.settings = values;
    for (const key of nitro.config.keys) {
      if (key === "variant" || !(key in kept)) continue;
      if (WORDS[key]) values[key] = allowed(key, kept[key]);
      else if (typeof kept[key] === typeof values[key]) values[key] = kept[key];
    }
    restored = true;
    nitro.push(values);
    return kept;
  };

  /* The request the settings describe, as the server reads it. */
  nitro.request = function (prompt, explain) {
    const s = nitro.settings;
    const out = { prompt, variant: s.variant, cfg_schedule: s.cfg_schedule };
    for (const key of Object.keys(WORDS)) out[key] = allowed(key, s[key], explain);
    return { ...out, ...nitro.bits?.fields(card(s.variant)) };
  };

  nitro.allowedSetting = (key, value, variant) => allowed(key, value, null, variant);
  nitro.card = card;
})(window.nitro);
