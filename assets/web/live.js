/* When something is drawn: a draft while keys fall, the picture itself when they rest, one
   regeneration for every stroke. What a run does once it is under way is in runs.js. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const PAUSE_MS = 120;
  const REFINE_MS = 400;
  const WORTH_A_DRAFT_MS = 500; // a picture that is quicker needs none
  const QUICK_MS = 1500; // strokes wait for each other up to here; beyond, the newest counts
  const REDRAW = ["variant", "ar_iterations", "flow_steps", "cfg_scale", "cfg_schedule",
    "temperature", "seed"];

  const { runs } = nitro;
  let promptBox = () => null;
  let pause = null;
  let refine = null;
  let composing = false;
  let strokes = []; // regenerations still to come, in order
  let quiet = false; // controls are being set, and nothing is drawn for it

  nitro.startLive = function (stage, findPrompt) {
    runs.stage = stage;
    nitro.report.root = stage.root;
    promptBox = findPrompt;
    runs.onEnd = ended;
  };

  const words = (text) => text.trim().split(/\s+/).join(" ");

  /* What decides the picture; previews and spaces do not. */
  function keyOf(request) {
    return JSON.stringify({ ...request, prompt: words(request.prompt), preview_every: 0 });
  }

  /* The key of the picture that prompt and controls ask for. */
  nitro.keyNow = (prompt) => keyOf({ ...nitro.request(prompt), ...nitro.baseFields() });

  /* Set controls without drawing. */
  nitro.quietly = function (act) {
    wait();
    quiet = true;
    try { act(); } finally { quiet = false; }
  };

  function wait() {
    clearTimeout(pause);
    clearTimeout(refine);
    pause = refine = null;
  }

  /* Typing, or a control: draw after a pause. */
  nitro.schedule = function () {
    wait();
    if (!nitro.settings.auto || composing) return;
    const request = nitro.request(promptBox().value);
    if (keyOf(request) !== runs.shown && draftOf(request)) {
      pause = setTimeout(() => nitro.run({ draft: true }), PAUSE_MS);
      refine = setTimeout(() => {
        refine = null;
        if (!runs.current?.draft) nitro.run(); // else when that one is there: no flash in between
      }, REFINE_MS);
    } else {
      pause = setTimeout(() => nitro.run(), PAUSE_MS);
    }
  };

  /* The same picture in fewer steps, or null where that would save nothing worth a look. */
  function draftOf(request) {
    const rounds = request.ar_iterations;
    const steps = rounds * (nitro.card()?.sampler === "mlp-head" ? 1 : request.flow_steps);
    const expected = steps * runs.stepMs(request.variant);
    if (!nitro.settings.draft || nitro.base() || !(expected >= WORTH_A_DRAFT_MS)) return null;
    const fewer = (count) => Math.max(1, Math.ceil(count / 4));
    return rounds > 1 ? { ...request, ar_iterations: fewer(rounds) }
      : request.flow_steps > 4 ? { ...request, flow_steps: fewer(request.flow_steps) } : null;
  }

  nitro.onSettings = function (changed) {
    if (quiet) return;
    if (changed.includes("variant")) {
      nitro.push(nitro.variantDefaults(nitro.settings.variant) || {});
      nitro.onVariant?.();
    }
    if (changed.includes("auto") && !nitro.settings.auto) wait();
    if (changed.includes("auto") || changed.some((key) => REDRAW.includes(key))) nitro.schedule();
  };

  nitro.composition = function (on) {
    composing = on;
    if (on) wait();
    else nitro.schedule();
  };

  /* Enter, Ctrl+Enter and the Generate button: now, with a new seed unless it is locked. */
  nitro.generate = function () {
    wait();
    if (!words(promptBox().value)) {
      nitro.say("Type what you would like to see first.", "warn");
      promptBox().focus();
      return;
    }
    if (!nitro.settings.lock) {
      nitro.push({ seed: nitro.rollSeed() });
      wait(); // what the new seed would have scheduled comes now
    }
    nitro.run({ forced: true });
  };

  nitro.run = function ({ forced = false, draft = false } = {}) {
    strokes = [];
    const wanted = ask();
    if (!wanted) return;
    const whole = keyOf(wanted.request);
    const { current, shown, result } = runs;
    const request = (draft && shown !== whole && draftOf(wanted.request)) || wanted.request;
    const key = keyOf(request);
    if (current?.key === key) return;
    if (!current && shown === key && !(forced && !result.name)) {
      if (runs.stage.root.dataset.state !== "finished") nitro.say("");
      nitro.report.state("finished");
      if (forced) nitro.say("This picture is already shown. Unlock the seed for another one.");
      return;
    }
    runs.start({ request, key, note: wanted.note, draft: request !== wanted.request });
  };

  /* What is set now as a request; null, and said, where nothing can be drawn. */
  function ask() {
    const prompt = promptBox().value;
    nitro.remember({ prompt });
    if (!words(prompt)) {
      runs.abort();
      runs.settle("idle");
      if (nitro.base()) nitro.say("Say in the prompt what it should show.", "warn");
      return null;
    }
    let note = "";
    const explain = (text) => { note = text; };
    const request = { ...nitro.request(prompt, explain), ...nitro.baseFields(explain) };
    const card = nitro.card();
    if (card?.state === "failed") {
      runs.abort();
      runs.settle("failed");
      nitro.say(card.message || `${card.title} is not available here.`, "error");
      return null;
    }
    return { request, note };
  }

  /* A stroke: drawn after those before it, so that each of them is seen. */
  nitro.stroke = function () {
    wait();
    if (!words(promptBox().value)) {
      nitro.say("Say in the prompt what the chosen cells should show.", "warn");
      promptBox().focus();
      return;
    }
    const wanted = ask();
    if (!wanted) return;
    const slow = runs.paceMs(wanted.request.variant) > QUICK_MS;
    if (slow) strokes = [];
    strokes.push({ ...wanted, key: keyOf(wanted.request), base: nitro.base(), stroke: true });
    if (!runs.current || !runs.current.stroke) nextStroke();
  };

  function nextStroke() {
    const next = strokes.shift();
    if (next) runs.start(next);
  }

  /* A run has ended by itself, well or not. */
  function ended(run, finished) {
    if (run.stroke) nextStroke();
    else if (run.draft && finished && !refine) nitro.run();
  }

  nitro.stop = function () {
    wait();
    strokes = [];
    const stopped = runs.abort();
    if (!stopped) return;
    const at = stopped.total ? ` at step ${stopped.step} of ${stopped.total}` : "";
    const back = runs.settle("stopped");
    nitro.say(`Stopped${at}.${back ? " Showing the last finished picture." : ""}`);
  };

  /* A restarted server has not kept the picture; its settings draw it again. */
  nitro.onRestart = function () {
    const { result } = runs;
    if (!result) return;
    result.name = result.picture = "";
    if (!runs.current) nitro.say("The server was restarted. Your picture and settings are kept here.");
  };
})(window.nitro);
