/* Live and the other pages: which of them is shown follows the address (#compare, #grid, ...). */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  nitro.openPages = function () {
    const find = (name) => document.querySelector(name);
    nitro.compare = new nitro.Compare(find(".nc-compare"));
    nitro.grid = new nitro.Grid(find(".nc-grid"));
    nitro.batch = new nitro.Batch(find(".nc-batch"));
    nitro.vote = new nitro.Vote(find(".nc-vote"));
    nitro.numbers = new nitro.Numbers(find(".nc-numbers"));
    const others = { compare: nitro.compare, grid: nitro.grid, batch: nitro.batch, vote: nitro.vote,
      numbers: nitro.numbers };
    let shown = "live";

    function go() {
      const name = location.hash.slice(1) in others ? location.hash.slice(1) : "live";
      find("#nc-main").style.display = name === "live" ? "" : "none";
      document.body.classList.toggle("off-live", name !== "live");
      for (const [id, page] of Object.entries(others)) {
        page.root.hidden = id !== name;
        find(`#nc-${id}`).style.display = id === name ? "" : "none"; // else its gap would stay
      }
      document.querySelectorAll(".nc-pages a").forEach((link) => {
        if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      });
      if (shown !== name) {
        if (shown === "live") nitro.stop();
        else others[shown].stop();
      }
      shown = name;
      others[name]?.enter();
    }
    window.addEventListener("hashchange", go);
    go();
  };
})(window.nitro);
