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

  nitro.download = async function (result) {
    if (!result?.name) return;
    try {
      const response = await nitro.call(`canvas/result/${result.name}.png`);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      const slug = result.settings.prompt.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 48);
      link.download = `${slug || "picture"}-${result.settings.seed}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    } catch (error) {
      nitro.say(error.message, "error");
    }
  };

  nitro.report = report;
})(window.nitro);
