/* What the page says about a run: the status line, the facts below the picture, the progress bar;
   and the download of what was finished. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const report = {
    root: null, // the stage's element

    fact(name, text) {
      report.root.querySelector(`[data-fact=${name}]`).textContent = text;
    },

    state(name) {
      report.root.dataset.state = name;
      document.querySelector("#nc-main").classList.toggle("nc-running-now", name === "running");
    },

    progress(share) {
      report.root.querySelector(".nc-progress i").style.transform = `scaleX(${share})`;
    },

    time: (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`),
  };

  nitro.say = function (words, kind = "info") {
    const line = report.root.querySelector(".nc-status");
    if (line.textContent !== words) line.textContent = words;
    line.dataset.kind = kind;
  };

  /* Says when the next try is, second by second, until something else is said. */
  nitro.countDown = function (words, seconds) {
    const until = performance.now() + seconds * 1000;
    let told = "";
    const tell = () => {
      const left = Math.ceil((until - performance.now()) / 1000);
      const line = report.root.querySelector(".nc-status");
      if (left < 1 || (told && line.textContent !== told)) return void clearInterval(clock);
      told = `${words} Trying again in ${left} s.`;
      nitro.say(told, "error");
    };
    const clock = setInterval(tell, 1000);
    tell();
  };

  nitro.slug = (text) =>
    text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 48) || "picture";

  nitro.downloadBlob = function (blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  /* The server's PNG; where it is not kept any more, the picture as it is shown here. */
  nitro.save = async function () {
    const { result } = nitro.runs;
    if (!result || nitro.runs.shown !== result.key) return;
    const { settings } = result;
    const name = `${nitro.slug(settings.prompt)}-${settings.seed}.png`;
    try {
      if (result.name) {
        const response = await nitro.call(`canvas/result/${result.name}.png`);
        return void nitro.downloadBlob(await response.blob(), name);
      }
    } catch (error) {
      if (error.status !== 404) return void nitro.say(error.message, "error");
    }
    const blob = await new Promise((done) => { nitro.stage.finished.toBlob(done, "image/png"); });
    nitro.downloadBlob(await nitro.withSettings(blob, settings), name);
    nitro.say("Saved as it is shown here: the server has not kept the original.");
  };

  nitro.canSave = function (on) {
    for (const name of [".nc-save", ".nc-link"]) report.root.querySelector(name).disabled = !on;
  };

  /* GFLOP of a picture by the variant's coefficients, or null where nobody counted them. */
  nitro.gflopOf = function ({ cost }, { ar_iterations: rounds, flow_steps: flow, cfg_scale: scale }) {
    if (!cost) return null;
    const branch = cost.base + cost.per_iteration * rounds + cost.per_flow_step * flow
      + cost.per_both * rounds * flow;
    return (scale === 1 ? 1 : 2) * branch + cost.decode;
  };

  nitro.flopWords = function (card, settings) {
    const gflop = nitro.gflopOf(card, settings);
    if (gflop === null) return "–";
    const [value, unit] = gflop >= 1000 ? [gflop / 1000, "T"] : [gflop, "G"];
    return `≈ ${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}FLOP`;
  };

  nitro.reachable = async function () {
    try { return (await fetch(nitro.address("canvas/status"))).ok; } catch { return false; }
  };

  nitro.report = report;
})(window.nitro);
