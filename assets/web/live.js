/* Runs: one generation per pause in typing, the newest request wins, errors are said in words and
   lose nothing. A server that is gone is retried with back-off. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const { fact, state, progress, time } = nitro.report;
  const PAUSE_MS = 120;
  const BACK_OFF_S = [1, 2, 4, 8, 15];
  const FALLBACK_MS = 60000;
  const BROKEN = [0, 404, 405, 411, 415, 501, 502, 504]; // something between breaks the stream
  const REDRAW = ["variant", "ar_iterations", "flow_steps", "cfg_scale", "cfg_schedule",
    "temperature", "seed"];

  let stage = null;
  let promptBox = () => null;
  let current = null; // the run in progress
  let shown = null; // key of the finished picture on the canvas
  let result = null; // its name on the server, and its settings
  let pause = null;
  let retry = null;
  let failures = 0; // in a row, to reach the server
  let brokenStreams = 0;
  let fallbackUntil = 0; // the second transport serves until then; then the first is tried again
  let composing = false;

  nitro.startLive = function (theStage, findPrompt) {
    stage = theStage;
    nitro.report.root = theStage.root;
    promptBox = findPrompt;
  };

  const words = (text) => text.trim().split(/\s+/).join(" ");

  /* What decides the picture; previews and spaces do not. */
  function keyOf(request) {
    return JSON.stringify({ ...request, prompt: words(request.prompt), preview_every: 0 });
  }

  /* Typing, or a control: draw after a pause. */
  nitro.schedule = function () {
    clearTimeout(pause);
    pause = null;
    if (!nitro.settings.auto || composing) return;
    pause = setTimeout(() => nitro.run(false), PAUSE_MS);
  };

  nitro.onSettings = function (changed) {
    if (changed.includes("variant")) {
      nitro.push(nitro.variantDefaults(nitro.settings.variant) || {});
      nitro.onVariant?.();
    }
    if (changed.includes("auto") && !nitro.settings.auto) clearTimeout(pause);
    if (changed.includes("auto") || changed.some((key) => REDRAW.includes(key))) nitro.schedule();
  };

  nitro.composition = function (on) {
    composing = on;
    if (on) clearTimeout(pause);
    else nitro.schedule();
  };

  /* Enter, Ctrl+Enter and the Generate button: now, with a new seed unless it is locked. */
  nitro.generate = function () {
    clearTimeout(pause);
    if (!words(promptBox().value)) {
      nitro.say("Type what you would like to see first.", "warn");
      promptBox().focus();
      return;
    }
    if (!nitro.settings.lock) nitro.push({ seed: nitro.rollSeed() });
    nitro.run(true);
  };

  nitro.run = function (forced) {
    const prompt = promptBox().value;
    nitro.remember({ prompt });
    if (!words(prompt)) {
      abort();
      settle("idle");
      return;
    }
    let note = "";
    const request = nitro.request(prompt, (text) => { note = text; });
    const key = keyOf(request);
    const card = nitro.card();
    if (card?.state === "failed") {
      abort();
      settle("failed");
      nitro.say(card.message || `${card.title} is not available here.`, "error");
      return;
    }
    if (current?.key === key) return;
    if (!current && shown === key && !(forced && !result.name)) {
      if (stage.root.dataset.state !== "finished") nitro.say("");
      state("finished");
      if (forced) nitro.say("This picture is already shown. Unlock the seed for another one.");
      return;
    }
    start(request, key, note);
  };

  function abort() {
    clearTimeout(retry);
    if (!current) return null;
    const stopped = current;
    current = null;
    stopped.controller.abort();
    stage.drop();
    return stopped;
  }

  /* Nothing runs any more: the last finished picture comes back, if there is one. */
  function settle(otherwise) {
    const back = stage.restoreFinished();
    if (back) showResult();
    state(back ? "finished" : otherwise);
    nitro.say("");
    return back;
  }

  nitro.stop = function () {
    clearTimeout(pause);
    const stopped = abort();
    if (!stopped) return;
    const at = stopped.total ? ` at step ${stopped.step} of ${stopped.total}` : "";
    const back = settle("stopped");
    nitro.say(`Stopped${at}.${back ? " Showing the last finished picture." : ""}`);
  };

  async function start(request, key, note) {
    abort();
    const me = { request, key, controller: new AbortController(), step: 0, total: 0,
      began: performance.now(), at: 0, first: null };
    current = me;
    state("running");
    stage.root.dataset.wanted = request.prompt;
    progress(0);
    fact("step", "…");
    nitro.say(note || "", "info");
    const onEvent = (header, picture) => { if (current === me) take(me, header, picture); };
    try {
      const requests = [{ slot: "live", request }];
      const transport = performance.now() < fallbackUntil ? nitro.streamGradio : nitro.streamRaw;
      await transport(requests, me.controller.signal, onEvent);
      failures = 0;
      if (current === me && !me.ended) throw new nitro.ServerError(0, "The stream ended early.");
    } catch (error) {
      if (current === me) await recover(me, error);
    }
  }

  function take(me, header, picture) {
    if (header.event === "queued") {
      const card = nitro.card(me.request.variant);
      const wait = Math.max(1, Math.round(header.expected_wait_s));
      if (card && card.state !== "ready") waiting(me, `${card.title} is loading.`);
      else if (header.position > 0) {
        waiting(me, `Waiting: ${header.position} before you, about ${wait} s.`);
      }
    } else if (header.event === "waiting") { // nothing has happened for some seconds
      if (header.message) waiting(me, header.message);
    } else if (header.event === "started") {
      me.total = header.steps;
      me.weights = header.weights;
      nitro.onWeights?.(header.weights);
      fact("step", `0 / ${me.total}`);
      if (me.waits) nitro.say("");
      nitro.onNotes?.(header.notes || [], () => current === me || shown === me.key);
    } else if (header.event === "step") {
      me.step = header.index;
      progress(header.index / header.total);
      fact("step", `${header.index} / ${header.total}`);
      if (picture) {
        stage.show(picture, () => { if (current === me) { painted(me); grid(me, header); } });
      } else grid(me, header); // a step without a frame still counts
    } else if (header.event === "finished") {
      me.ended = true;
      stage.show(picture, () => finished(me, header), () => unreadable(me));
    } else if (header.event === "failed") {
      fail(me, header.message);
    } else if (header.event === "superseded") {
      end(me);
      settle("idle");
      if (header.reason === "closed") nitro.say("The server is shutting down.", "warn");
    }
  }

  function waiting(me, text) {
    me.waits = true;
    nitro.say(text);
  }

  function end(me) {
    me.ended = true;
    if (current === me) current = null;
  }

  function fail(me, message) {
    end(me);
    if (!settle("failed")) ["step", "first", "total", "seed"].forEach((each) => fact(each, "–"));
    state("failed");
    nitro.say(message, "error");
  }

  function unreadable(me) {
    if (current === me) fail(me, "The finished picture arrived damaged. Press Generate to draw it again.");
  }

  /* The newest step's grid; its frame may be painted later, or never. */
  function grid(me, header) {
    if (header.index < me.at) return;
    me.at = header.index;
    stage.setGrid(header.committed, header.index);
  }

  /* The canvas shows a frame of this run: the finished picture is no longer what is seen. */
  function painted(me) {
    shown = null;
    stage.root.querySelector(".nc-save").disabled = true;
    stage.root.dataset.shown = me.request.prompt;
    if (me.first !== null) return;
    me.first = performance.now() - me.began;
    fact("first", time(me.first));
    fact("seed", String(me.request.seed));
    fact("total", "…");
  }

  function finished(me, header) {
    if (current !== me) return;
    painted(me);
    end(me);
    const again = header.timings.device_ms === 0;  // drawn before: these are no times of drawing
    result = { name: header.result, settings: header.settings, key: me.key,
      step: `${header.steps} / ${header.steps}`, first: again ? "kept" : time(me.first),
      total: again ? "kept" : time(performance.now() - me.began) };
    stage.keepFinished();
    stage.setGrid(null, 0);
    progress(1);
    showResult();
    state("finished");
    const status = stage.root.querySelector(".nc-status");
    if (status.dataset.kind === "error" || !status.textContent) {
      nitro.say(again ? "Drawn before with these settings, so shown at once."
        : `Finished: ${header.steps} ${header.steps === 1 ? "step" : "steps"}.`, "quiet");
    }
    brokenStreams = 0;
  }

  /* The facts of the finished picture, also after a stop brought it back. */
  function showResult() {
    shown = result.key;
    fact("step", result.step);
    fact("first", result.first);
    fact("total", result.total);
    fact("seed", String(result.settings.seed));
    stage.root.dataset.shown = result.settings.prompt;
    stage.root.dataset.result = result.name || "";
    stage.root.querySelector(".nc-save").disabled = !result.name;
    stage.picture.setAttribute("aria-label", `Picture: ${result.settings.prompt}`);
  }

  async function recover(me, error) {
    const served = error instanceof nitro.ServerError;
    if (served && error.retryAfter && [429, 503].includes(error.status)) {
      nitro.say(`${error.message} Trying again by itself.`, "warn");
      again(me, error.retryAfter);
    } else if (served && !BROKEN.includes(error.status)) {
      fail(me, error.message);
    } else if (await reachable()) {
      if (current !== me) return;
      brokenStreams += 1;
      if (brokenStreams > 3) {
        brokenStreams = 0;
        fail(me, "The picture did not arrive. Press Generate to try again.");
        return;
      }
      if (brokenStreams > 1) fallbackUntil = performance.now() + FALLBACK_MS;
      again(me, 0.1);
    } else if (current === me) {
      const wait = BACK_OFF_S[Math.min(failures, BACK_OFF_S.length - 1)];
      failures += 1;
      if (stage.restoreFinished()) showResult();
      nitro.countDown("The server cannot be reached. Your prompt, settings and picture are kept.",
        wait);
      state("offline");
      again(me, wait);
    }
  }

  function again(me, seconds) {
    clearTimeout(retry);
    retry = setTimeout(() => { if (current === me) start(me.request, me.key, ""); },
      seconds * 1000);
  }

  async function reachable() {
    try { return (await fetch(nitro.address("canvas/status"))).ok; } catch { return false; }
  }

  /* A restarted server has not kept the picture; its settings draw it again. */
  nitro.onRestart = function () {
    if (!result) return;
    result.name = "";
    stage.root.querySelector(".nc-save").disabled = true;
    if (!current) {
      nitro.say("The server was restarted. To save this picture, lock its seed and press Generate.", "warn");
    }
  };

  nitro.save = () => nitro.download(result);
})(window.nitro);
