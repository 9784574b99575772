/* The panel beside the picture: variant card, prompt hint, examples, keys, theme, start-up. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const HINT_PAUSE_MS = 250;
  const THEME = "nitro-canvas:theme";
  const find = (selector) => document.querySelector(selector);
  const promptBox = () => find("#nc-prompt textarea");

  let stage = null;
  let loaded = false;
  let begun = false;
  let hintTimer = null;
  let hinted = "";
  let boot = ""; // which run of the server this page knows

  nitro.mount = function (root, trigger) {
    stage = new nitro.Stage(root.querySelector(".nc-stage"));
    nitro.stage = stage;
    nitro.film = new nitro.Film(stage);
    nitro.paint = new nitro.Paint(stage);
    nitro.pad = new nitro.Pad(stage);
    nitro.bits = new nitro.Bits(stage);
    nitro.trigger = trigger;
    begin();
  };

  nitro.loaded = function () {
    keptTheme();
    loaded = true;
    begin();
  };

  function begin() {
    if (begun || !stage || !loaded) return;
    if (!promptBox() || !find("#nc-variant input")) return void setTimeout(begin, 30);
    begun = true;
    nitro.startLive(stage, promptBox);
    const link = nitro.readLink();
    const kept = nitro.restore();
    if (link) nitro.applySettings(link);
    else if (kept.prompt) nitro.pushPrompt(kept.prompt);
    overlay({ tokens: kept.overlay !== false, heat: Boolean(kept.heat) });
    stage.root.querySelector(".nc-strength").value = kept.strength ?? 0.6;
    listen();
    nitro.openHistory(stage.root);
    nitro.openPages();
    nitro.onFinished = (result) => { nitro.mark(); nitro.keepInHistory(result); };
    nitro.onVariant();
    followStatus();
    stage.root.dataset.ready = "yes";
    if (link || kept.prompt) {
      setTimeout(() => { hint(); nitro.schedule(); }, 100);
    }
  }

  function listen() {
    const box = promptBox();
    box.setAttribute("aria-describedby", "nc-hint-line");
    box.setAttribute("spellcheck", "true");
    box.addEventListener("input", () => typed());
    box.addEventListener("compositionstart", () => nitro.composition(true));
    box.addEventListener("compositionend", () => nitro.composition(false));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      event.stopPropagation();
      nitro.generate();
    }, true);
    document.addEventListener("keypress", (event) => {  // Gradio would submit and eat the line
      if (event.target === box && event.key === "Enter" && event.shiftKey) event.stopPropagation();
    }, true);
    nitro.listenToKeys(box);
    const press = (name, act) => stage.root.querySelector(name).addEventListener("click", act);
    press(".nc-toggle", () => {
      overlay({ tokens: !stage.overlayOn });
      if (stage.overlayOn && stage.step === null) {
        nitro.say("Tokens are outlined while a picture is being drawn, and on its timeline.", "quiet");
      }
    });
    press(".nc-heat", () => {
      overlay({ heat: !stage.heatOn });
      if (stage.heatOn && !stage.grid && stage.finished) {
        nitro.say(nitro.card()?.tokens ? "This model’s tokens have no place in the picture; see the bits below it."
          : "This model draws the whole picture at once: its tokens have no order.", "quiet");
      }
    });
    press(".nc-save", () => nitro.save());
    press(".nc-link", () => nitro.copyLink());
    press(".nc-undo", () => nitro.again(false));
    press(".nc-redo", () => nitro.again(true));
    press(".nc-unbase", () => { nitro.setBase(null); nitro.schedule(); });
    stage.root.querySelectorAll("[data-choose]").forEach((button) => {
      button.addEventListener("click", () => nitro.setMode(button.dataset.choose));
    });
    find(".nc-ask").addEventListener("click", () => nitro.help());
    find(".nc-theme").addEventListener("click", switchTheme);
    find(".nc-examples").addEventListener("click", (event) => {
      const chip = event.target.closest("button");
      if (!chip) return;
      nitro.pushPrompt(chip.textContent);
      typed(true);
      box.focus();
    });
    window.addEventListener("resize", () => stage.drawOverlay());
  }

  function typed(now) {
    nitro.remember({ prompt: promptBox().value });
    if (now) nitro.run();
    else nitro.schedule();
    clearTimeout(hintTimer);
    hintTimer = setTimeout(hint, HINT_PAUSE_MS);
  }

  function overlay(set) {
    stage.setOverlay(set);
    const press = (name, on) => stage.root.querySelector(name).setAttribute("aria-pressed", String(on));
    press(".nc-toggle", stage.overlayOn);
    press(".nc-heat", stage.heatOn);
    nitro.remember({ overlay: stage.overlayOn, heat: stage.heatOn });
  }

  function switchTheme() {
    const dark = document.body.classList.toggle("dark");
    try { localStorage.setItem(THEME, dark ? "dark" : "light"); } catch { /* not kept */ }
    stage.drawOverlay();
  }

  /* Gradio follows the system when it starts; a choice made here comes after it. */
  function keptTheme() {
    if (new URLSearchParams(location.search).has("__theme")) return;
    try {
      const theme = localStorage.getItem(THEME);
      if (theme) document.body.classList.toggle("dark", theme === "dark");
    } catch { /* storage is forbidden: the system's theme */ }
  }

  /* Under the prompt: how much of it is read, and what the variant never learnt. */
  async function hint() {
    const line = find("#nc-hint-line");
    const prompt = promptBox().value;
    const { variant } = nitro.settings;
    if (!line) return;
    if (!prompt.trim()) {
      line.textContent = "Enter draws now, Shift+Enter starts a new line, Escape stops.";
      line.dataset.kind = "info";
      hinted = "";
      return;
    }
    if (hinted === variant + prompt) return;
    const query = new URLSearchParams({ variant, prompt });
    try {
      const facts = await (await nitro.call(`canvas/describe?${query}`)).json();
      if (promptBox().value !== prompt || nitro.settings.variant !== variant) return;
      hinted = variant + prompt;
      const parts = [];
      if (facts.limit) parts.push(`${facts.tokens} of ${facts.limit} tokens`);
      if (prompt.length >= nitro.config.limits.prompt_characters) {
        parts.push(`${prompt.length.toLocaleString("en")} characters, the most that fit`);
      }
      if (facts.unknown.length) {
        const name = nitro.card()?.title.split(" ")[0] || "The model";
        const short = (word) => (word.length > 24 ? `${word.slice(0, 24)}…` : word);
        const some = facts.unknown.slice(0, 6).map(short).join(", ");
        const instead = facts.nearest.length ? `. Try: ${facts.nearest.join(", ")}` : "";
        parts.push(
          `${name} doesn’t know: ${some}${facts.unknown.length > 6 ? ", …" : ""}${instead}`);
      }
      line.textContent = parts.join(" · ");
      if (facts.unread) {
        const unread = document.createElement("s");
        unread.textContent = facts.unread;
        line.append(" · not read any more: ", unread);
      }
      line.dataset.kind = facts.truncated || facts.unknown.length ? "warn" : "info";
    } catch (error) {
      line.textContent = error.status === 400 ? error.message : "";
      line.dataset.kind = "warn";
    }
  }

  const STATES = { ready: "ready", loading: "loading…", waiting: "waiting to load",
    failed: "not available" };

  nitro.onVariant = function () {
    const card = nitro.card();
    const box = find("#nc-variant-card");
    if (!card || !box) return;
    const line = (name, text) => {
      const p = document.createElement("p");
      p.className = name;
      p.textContent = text;
      return p;
    };
    const tokens = card.tokens ? `${card.tokens} tokens in a row`
      : `${card.grid} × ${card.grid} tokens`;
    const size = card.parameters_m ? ` · ${card.parameters_m} M parameters` : "";
    const lines = [line("nc-summary", card.summary),
      line("nc-spec", `${card.resolution} px · ${tokens}${size}`)];
    if (card.research_only) lines.push(line("nc-notice", `Research only. ${card.research_only}`));
    nitro.bits.follow(card);
    if (card.state !== "ready") {
      const text = card.message || `${card.title} is ${STATES[card.state] || card.state}.`;
      lines.push(line(`nc-variant-state is-${card.state}`, text));
    }
    if (!card.embedded) lines.push(line("nc-licence", `Licence: ${card.licence}`));
    if (card.published.length) {
      const all = card.published.map((f) => `${f.name} ${f.value} (${f.device})`).join(", ");
      lines.push(line("nc-published", `Published, not measured here: ${all}. `
        + `Source: ${card.published[0].source}.`));
    }
    box.replaceChildren(...lines);
    find(".nc-examples").replaceChildren(...card.examples.map((text) => {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.textContent = text;
      return chip;
    }));
    const running = find(".nc-running");
    const kind = card.state !== "ready" ? STATES[card.state] || card.state
      : card.weights === "random" ? "untrained, for measuring speed"
      : card.embedded ? "small embedded model" : "published weights";
    running.textContent = `${card.title}: ${kind}`;
    find(".nc-badge").hidden = card.weights !== "random";
    for (const key of ["ar_iterations", "flow_steps"]) {  // a setting without a choice is none
      find(`#nc-${key}`).style.display = card[key].low === card[key].high ? "none" : "";
    }
    hinted = "";
    hint();
  };

  /* What the model says about the prompt, unless the hint line says it already. */
  nitro.onNotes = async function (notes, stillWanted) {
    if (!notes.length) return;
    await hint();
    const line = find("#nc-hint-line");
    const said = line?.textContent && line.dataset.kind === "warn";
    if (!said && stillWanted()) nitro.say(notes.join(" "), "warn");
  };

  nitro.onWeights = (weights) => { find(".nc-badge").hidden = weights !== "random"; };

  function paintStates() {
    document.querySelectorAll("#nc-variant label").forEach((label, i) => {
      const card = nitro.config.variants[i];
      if (!card) return;
      label.dataset.state = card.state;
      label.title = `${card.title}: ${STATES[card.state] || card.state}`;
    });
  }

  /* Variants load while the page is already open, and servers are restarted. */
  async function followStatus() {
    if (!document.hidden) await askStatus();
    paintStates();
    const states = nitro.config.variants.map((v) => v.state);
    // what waits while nothing loads was set aside: it waits until somebody asks for it
    const pause = lost ? 2 : states.includes("loading") ? 1 : states.includes("waiting") ? 10 : 20;
    setTimeout(followStatus, 1000 * pause);
  }

  let lost = false; // the server, while nothing was drawn; a run says so by itself

  async function askStatus() {
    try {
      const response = await fetch(nitro.address("canvas/status"));
      const status = await response.json();
      if (!response.ok || !Array.isArray(status.variants)) return;
      if (lost && !nitro.runs.current) nitro.runs.settle("idle");
      lost = false;
      takeStatus(status);
    } catch {
      if (nitro.runs.current) return;
      lost = true;
      nitro.report.state("offline");
      nitro.say("The server cannot be reached. Your prompt, settings and pictures are kept.", "error");
    }
  }

  function takeStatus(status) {
    if (boot && boot !== status.boot) {
      nitro.forgetSession();
      nitro.onRestart();
    }
    boot = status.boot;
    const before = JSON.stringify(nitro.config.variants);
    nitro.config.variants = status.variants;
    if (before !== JSON.stringify(status.variants)) nitro.onVariant();
  }
})(window.nitro);
