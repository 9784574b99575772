/* Grid, the pure part: what an axis's text means, and which cells two or three axes make. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const NUMBERS = ["ar_iterations", "flow_steps", "cfg_scale", "temperature", "seed"];
  const MOST = 100; // cells

  nitro.AXES = { "": "None", ar_iterations: "AR iterations", flow_steps: "Flow steps",
    cfg_scale: "CFG scale", cfg_schedule: "CFG schedule", temperature: "Temperature", seed: "Seed",
    variant: "Model", prompt: "Prompt" };

  nitro.AXIS_EXAMPLES = { ar_iterations: "4-20 step 4", flow_steps: "1, 2, 3, 6", cfg_scale: "1-5 step 1",
    cfg_schedule: "constant, linear", temperature: "0.6-1.2 step 0.2", seed: "0-4", variant: "",
    prompt: "a fox | an owl | a panda" };

  /* "4-20 step 4", "1, 2, 5-7", or words; prompts are separated by | as they may hold commas. */
  nitro.axisValues = function (key, text, explain) {
    const parts = text.split(key === "prompt" ? "|" : ",").map((part) => part.trim()).filter(Boolean);
    const values = parts.flatMap((part) => {
      if (!NUMBERS.includes(key)) return [part];
      const range = /^(-?[\d.]+)\s*(?:-|to|\.\.)\s*(-?[\d.]+)(?:\s*step\s*([\d.]+))?$/i.exec(part);
      if (!range) return [Number(part)];
      const [from, to, by] = [Number(range[1]), Number(range[2]), Number(range[3] || 1)];
      if (!(by > 0) || !(to >= from)) return [NaN];
      const count = Math.floor((to - from) / by + 1e-9) + 1;
      return Array.from({ length: Math.min(count, MOST + 1) }, (_, i) => +(from + i * by).toFixed(6));
    });
    const wrong = parts.length && values.findIndex((value) => !allowed(key, value));
    if (!parts.length) explain(`${nitro.AXES[key]}: say which values, for example ${example(key)}.`);
    else if (wrong >= 0) {
      explain(`${nitro.AXES[key]}: ${Number.isNaN(values[wrong]) ? `“${text}” cannot be read` :
        `${values[wrong]} is not possible`}. For example: ${example(key)}.`);
    } else return [...new Set(values)];
    return null;
  };

  function example(key) {
    return nitro.AXIS_EXAMPLES[key] || nitro.config.variants.map((card) => card.id).join(", ");
  }

  function allowed(key, value) {
    if (key === "variant") return nitro.config.variants.some((card) => card.id === value);
    if (key === "cfg_schedule") return ["constant", "linear"].includes(value);
    if (key === "prompt") return value.length <= nitro.config.limits.prompt_characters;
    const whole = !["cfg_scale", "temperature"].includes(key);
    const limit = nitro.config.limits[key];
    const [low, high] = limit ? [limit.low, limit.high] : [1, Infinity];
    return value >= low && value <= high && (!whole || Number.isInteger(value));
  }

  /* axes: [{key, values}], the first across. Cells with their place and whole request; null, and
     said, where that is too much or too little. What a variant cannot do leaves its place empty; a
     value that leaves a whole line empty is refused. */
  nitro.gridCells = function (axes, base, explain) {
    const used = axes.filter((axis) => axis.key);
    if (new Set(used.map((axis) => axis.key)).size < used.length) {
      explain("Two axes are the same. Choose different ones.");
      return null;
    }
    const count = used.reduce((product, axis) => product * axis.values.length, 1);
    if (count > MOST) {
      explain(`That would be ${count} pictures; at most ${MOST} go into a grid. Shorten an axis.`);
      return null;
    }
    let cells = [{ place: [], changes: {} }];
    for (const { key, values } of axes) {
      cells = cells.flatMap(({ place, changes }) => (key ? values : [null]).map((value, i) => ({
        place: [...place, i], changes: key ? { ...changes, [key]: value } : changes })));
    }
    const made = cells.map(({ place, changes }) => {
      const variant = changes.variant || base.variant;
      const steps = changes.variant ? nitro.variantDefaults(variant) : {};
      const request = { ...base, ...steps, ...changes, variant };
      for (const key of ["ar_iterations", "flow_steps"]) {
        request[key] = nitro.allowedSetting(key, request[key], variant);
      }
      const wrong = Object.keys(changes).find((key) => typeof changes[key] === "number"
        && nitro.allowedSetting(key, changes[key], variant) !== changes[key]);
      return { place, request, cost: nitro.stepsOf(request), wrong };
    });
    const possible = made.filter((cell) => !cell.wrong);
    for (const [at, { key, values }] of axes.entries()) {
      const empty = (key ? values : []).findIndex((_, n) =>
        !possible.some((cell) => cell.place[at] === n));
      if (empty < 0) continue;
      const cell = made.find((each) => each.place[at] === empty && each.wrong);
      const card = nitro.card(cell.request.variant);
      const limit = card[cell.wrong] ?? nitro.config.limits[cell.wrong];
      explain(limit.low === limit.high ? `${card.title} has no choice of ${nitro.AXES[cell.wrong]}.`
        : `${nitro.AXES[cell.wrong]} of ${card.title} goes from ${limit.low} to ${limit.high}.`);
      return null;
    }
    return possible;
  };

  /* Sampler steps of a request: a measure of what it costs. */
  nitro.stepsOf = function ({ variant, ar_iterations: rounds, flow_steps: flow }) {
    const { sampler } = nitro.card(variant);
    switch (sampler) {
      case "mlp-head": return rounds;
      case "joint-head": return 1 + rounds * flow;
      case "bit-ar": return nitro.card(variant).tokens;
      default: return flow; // diffusion, of latents or of bits
    }
  };
})(window.nitro);
