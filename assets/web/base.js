/* What a run starts from besides the prompt: nothing, a step of a finished picture (a fork), cells
   of one that may change (a mask), or a sketch. One of these at a time. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  let base = null;

  /* kind: "fork", "mask", "prefix" or "sketch". fields: what is added to a request. geometry: of the
     variants that can go on with it; without one all can. */
  nitro.setBase = function (made) {
    base = made;
    const line = nitro.stage.root.querySelector(".nc-base");
    line.hidden = !base?.words;
    line.firstElementChild.textContent = base?.words || "";
    nitro.stage.root.dataset.base = base?.kind || "";
    if (base?.kind !== "prefix") nitro.bits.keepNone();
  };

  nitro.base = () => base;

  /* The fields of a request to the chosen variant; what the variant cannot take is let go. */
  nitro.baseFields = function (explain) {
    if (!base) return {};
    const card = nitro.card();
    if (base.geometry && card && card.geometry !== base.geometry) {
      explain?.(`${card.title} cannot go on with a picture of another kind of model; starting afresh.`);
      nitro.setBase(null);
      return {};
    }
    return base.fields(card);
  };
})(window.nitro);
