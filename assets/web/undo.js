/* Undo and redo over finished pictures, with the cells that were chosen when they were made. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const DEPTH = 40;
  const DECODED = 4; // newest moments whose steps stay bitmaps; older ones are JPEGs till asked for
  let moments = []; // {result, picture, frames}
  let at = -1;

  const button = (name) => nitro.stage.root.querySelector(name);

  function tell() {
    button(".nc-undo").disabled = at <= 0;
    button(".nc-redo").disabled = at >= moments.length - 1;
  }

  /* A picture was finished: what could be redone is gone. */
  nitro.mark = function () {
    moments = [...moments.slice(0, at + 1).slice(1 - DEPTH), {
      result: nitro.runs.result,
      picture: nitro.stage.finished,
      frames: nitro.film.frames,
    }];
    at = moments.length - 1;
    for (const moment of moments.slice(0, -DECODED)) {
      moment.frames = moment.frames.map(({ source: _, ...frame }) => frame);
    }
    tell();
  };

  function go(to) {
    const moment = moments[to];
    if (!moment) return;
    nitro.stop();
    at = to;
    nitro.showMoment(moment);
    nitro.setBase(moment.result.base);
    nitro.paint.take(moment.result.base);
    nitro.say("");
    tell();
  }

  /* Show a finished picture again: its pixels, facts and steps. */
  nitro.showMoment = function ({ result, picture, frames }) {
    nitro.stage.setFinished(picture);
    nitro.runs.result = result;
    nitro.runs.showResult();
    nitro.film.load(frames);
    nitro.report.state("finished");
  };

  nitro.undo = () => go(at - 1);
  nitro.redo = () => go(at + 1);
})(window.nitro);
