/* One generation under way: its events become frames, facts and words. Errors are said in words and
   lose nothing; a server that is gone is retried with back-off. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const { fact, state, progress, time } = nitro.report;
  const BACK_OFF_S = [1, 2, 4, 8, 15];
  const FALLBACK_MS = 60000;
  const BROKEN = [0, 404, 405, 411, 415, 501, 502, 504]; // something between breaks the stream
  const HELD_BACK = 0.6; // of a refinement's steps, while its draft is on the canvas

  let retry = null;
  let failures = 0; // in a row, to reach the server
  let brokenStreams = 0;
  let fallbackUntil = 0; // the second transport serves until then; then the first is tried again
  const pace = {}; // by variant, of its last whole picture: {step, total} in ms

  const runs = nitro.runs = {
    stage: null,
    current: null, // the run in progress
    shown: null, // key of the finished picture on the canvas
    result: null, // the last finished picture: its names on the server, settings, facts
    onEnd: () => {},
    stepMs: (variant) => pace[variant]?.step,
    paceMs: (variant) => pace[variant]?.total ?? 0,
  };

  runs.abort = function () {
    clearTimeout(retry);
    const stopped = runs.current;
    if (!stopped) return null;
    runs.current = null;
    stopped.controller.abort();
    runs.stage.drop();
    return stopped;
  };

  /* Nothing runs any more: the last finished picture comes back, if there is one. */
  runs.settle = function (otherwise) {
    const back = runs.stage.restoreFinished();
    if (back) runs.showResult();
    state(back ? "finished" : otherwise);
    nitro.say("");
    return back;
  };

  runs.start = async function (
    { request, key, note, draft = false, stroke = false, base = nitro.base() }) {
    const before = runs.abort();
    const { stage } = runs;
    const me = { request, key, draft, stroke, base, controller: new AbortController(), step: 0, total: 0,
      began: performance.now(), at: 0, first: null,
      // no flash: what the draft shows stays until this run knows more than it did
      heldBack: !draft && stage.draftOf === request.prompt ? HELD_BACK : 0 };
    if (!draft && before?.request.prompt !== request.prompt) stage.draftOf = null;
    runs.current = me;
    state("running");
    stage.root.dataset.wanted = request.prompt;
    nitro.film.begin(base, draft);
    progress(0);
    fact("step", "…");
    nitro.say(note || "", "info");
    const onEvent = (header, picture) => { if (runs.current === me) take(me, header, picture); };
    try {
      const requests = [{ slot: "live", request }];
      const transport = performance.now() < fallbackUntil ? nitro.streamGradio : nitro.streamRaw;
      await transport(requests, me.controller.signal, onEvent);
      failures = 0;
      if (runs.current === me && !me.ended) {
        throw new nitro.ServerError(0, "The stream ended early.");
      }
    } catch (error) {
      if (runs.current === me) await recover(me, error);
    }
  };

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
      nitro.onWeights?.(header.weights);
      fact("step", `0 / ${me.total}`);
      if (me.waits) nitro.say("");
      nitro.onNotes?.(header.notes || [], () => runs.current === me || runs.shown === me.key);
    } else if (header.event === "step") {
      step(me, header, picture);
    } else if (header.event === "finished") {
      me.ended = true;
      runs.stage.show(picture, () => finished(me, header, picture), () => unreadable(me));
    } else if (header.event === "failed") {
      fail(me, header.message);
    } else if (header.event === "superseded") {
      end(me);
      runs.settle("idle");
      if (header.reason === "closed") nitro.say("The server is shutting down.", "warn");
    }
  }

  function step(me, header, picture) {
    me.step = header.index;
    const share = header.index / header.total;
    progress(share);
    fact("step", `${header.index} / ${header.total}`);
    nitro.film.add(header, picture);
    if (share < me.heldBack) return;
    if (picture) {
      runs.stage.show(picture, () => {
        if (runs.current === me) { painted(me); grid(me, header); }
      });
    } else grid(me, header); // a step without a frame still counts
  }

  function waiting(me, text) {
    me.waits = true;
    nitro.say(text);
  }

  function end(me) {
    me.ended = true;
    if (runs.current === me) runs.current = null;
  }

  function fail(me, message) {
    end(me);
    const gone = /is not kept here/.test(message);
    if (gone && nitro.base()?.renew) return void renew(me, nitro.base());
    if (!runs.settle("failed")) {
      ["step", "first", "total", "seed"].forEach((each) => fact(each, "–"));
    }
    state("failed");
    if (gone) nitro.setBase(null);
    nitro.say(gone ? "The server has not kept the steps of that picture. Press Generate to start afresh."
      : message, "error");
    runs.onEnd(me, false);
  }

  /* The server let go of what the run starts from: it is sent again, once. */
  async function renew(me, base) {
    const { renew: send } = base;
    base.renew = null;
    try {
      await send();
    } catch (error) {
      return void fail(me, error.message);
    }
    runs.start({ ...me, request: { ...me.request, ...nitro.baseFields() }, note: "" });
  }

  function unreadable(me) {
    if (runs.current !== me) return;
    fail(me, "The finished picture arrived damaged. Press Generate to draw it again.");
  }

  /* The newest step's grid; its frame may be painted later, or never. */
  function grid(me, header) {
    if (header.index < me.at) return;
    me.at = header.index;
    runs.stage.setGrid(header.committed, header.index, header.total);
    nitro.bits.show(header);
  }

  /* The canvas shows a frame of this run: the finished picture is no longer what is seen. */
  function painted(me) {
    runs.shown = null;
    nitro.canSave(false);
    runs.stage.root.dataset.shown = me.request.prompt;
    if (me.first !== null) return;
    me.first = performance.now() - me.began;
    fact("first", time(me.first));
    fact("seed", String(me.request.seed));
    fact("total", "…");
  }

  function finished(me, header, picture) {
    if (runs.current !== me) return;
    painted(me);
    end(me);
    if (me.draft) {
      runs.stage.draftOf = me.request.prompt;
      nitro.say("A draft; the picture follows when you pause.", "quiet");
      runs.onEnd(me, true);
      return;
    }
    runs.stage.draftOf = null;
    const again = header.timings.device_ms === 0;  // drawn before: these are no times of drawing
    const total = performance.now() - me.began;
    if (!again && header.steps) {
      pace[me.request.variant] = { step: header.timings.device_ms / header.steps, total };
    }
    runs.result = { name: header.result, picture: header.picture, settings: header.settings,
      key: me.key, steps: header.steps, grid: header.committed, bits: rasterOf(header), base: me.base, blob: picture,
      step: `${header.steps} / ${header.steps}`, first: again ? "kept" : time(me.first),
      total: again ? "kept" : time(total) };
    runs.stage.keepFinished();
    nitro.film.finish(header, picture);
    progress(1);
    runs.showResult();
    state("finished");
    nitro.onFinished?.(runs.result);
    const status = runs.stage.root.querySelector(".nc-status");
    if (["error", "quiet"].includes(status.dataset.kind) || !status.textContent) {
      nitro.say(again ? "Drawn before with these settings, so shown at once."
        : `Finished: ${header.steps} ${header.steps === 1 ? "step" : "steps"}.`, "quiet");
    }
    brokenStreams = 0;
    runs.onEnd(me, true);
  }

  /* The facts of the finished picture, also after a stop brought it back. */
  runs.showResult = function () {
    const { result, stage } = runs;
    runs.shown = result.key;
    fact("step", result.step);
    fact("first", result.first);
    fact("total", result.total);
    fact("seed", String(result.settings.seed));
    const drawnBy = nitro.card(result.settings.variant);
    fact("flops", drawnBy ? nitro.flopWords(drawnBy, result.settings) : "–");
    stage.root.dataset.shown = result.settings.prompt;
    stage.root.dataset.result = result.name || "";
    stage.setGrid(result.grid, null, result.steps);
    nitro.bits.show(result.bits);
    nitro.canSave(true);
    stage.picture.setAttribute("aria-label", `Picture: ${result.settings.prompt}`);
  };

  const rasterOf = ({ bits, bits_shape, committed }) => (bits ? { bits, bits_shape, committed } : null);
  nitro.rasterOf = rasterOf;

  async function recover(me, error) {
    const served = error instanceof nitro.ServerError;
    if (served && error.retryAfter && [429, 503].includes(error.status)) {
      nitro.say(`${error.message} Trying again by itself.`, "warn");
      again(me, error.retryAfter);
    } else if (served && !BROKEN.includes(error.status)) {
      fail(me, error.message);
    } else if (await nitro.reachable()) {
      if (runs.current !== me) return;
      brokenStreams += 1;
      if (brokenStreams > 3) {
        brokenStreams = 0;
        fail(me, "The picture did not arrive. Press Generate to try again.");
        return;
      }
      if (brokenStreams > 1) fallbackUntil = performance.now() + FALLBACK_MS;
      again(me, 0.1);
    } else if (runs.current === me) {
      const wait = BACK_OFF_S[Math.min(failures, BACK_OFF_S.length - 1)];
      failures += 1;
      if (runs.stage.restoreFinished()) runs.showResult();
      nitro.countDown("The server cannot be reached. Your prompt, settings and picture are kept.",
        wait);
      state("offline");
      again(me, wait);
    }
  }

  function again(me, seconds) {
    clearTimeout(retry);
    retry = setTimeout(() => {
      if (runs.current === me) runs.start({ ...me, note: "" });
    }, seconds * 1000);
  }
})(window.nitro);
