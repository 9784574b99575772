/* Blind vote: two pictures without names, a choice, then the names; below, the leaderboard. The
   server keeps who is who until the vote is in. */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "tie", ArrowDown: "both bad" };
  const SIDES = ["left", "right"];

  class Vote {
    constructor(root) {
      this.root = root;
      this.find = (name) => root.querySelector(name);
      this.match = null; // {id, prompt}: what is voted on
      this.aborter = null;
      this.find(".nc-vote-next").addEventListener("click", () => this.next());
      this.find(".nc-vote-prompt").addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          this.next();
        }
      });
      this.buttons = [...root.querySelectorAll("[data-choice]")];
      this.buttons.forEach((button) => button.addEventListener("click",
        () => this.choose(button.dataset.choice)));
      document.addEventListener("keydown", (event) => this.key(event));
      this.find(".nc-board-last ul").addEventListener("click", (event) => {
        const { match } = event.target.dataset;
        if (match) this.draw("votes/replay", { match });
      });
    }

    enter() { this.board(); }

    stop() {
      this.aborter?.abort();
      this.aborter = null;
      if (this.root.dataset.state === "drawing") this.state("idle");
    }

    key(event) {
      const typing = event.target.closest?.("textarea, input, select, dialog[open]");
      if (this.root.hidden || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in KEYS && this.root.dataset.state === "asking") {
        event.preventDefault();
        this.choose(KEYS[event.key]);
      } else if (event.key.toLowerCase() === "n" && this.root.dataset.state !== "drawing") {
        event.preventDefault();
        this.next();
      }
    }

    state(name) {
      this.root.dataset.state = name;
      for (const button of this.buttons) {
        button.disabled = name !== "asking";
        if (name === "drawing") button.removeAttribute("aria-pressed");
      }
    }

    say(words, kind = "info") {
      const line = this.find(".nc-vote-status");
      line.textContent = words;
      line.dataset.kind = kind;
    }

    next() { this.draw("votes/match", { prompt: this.find(".nc-vote-prompt").value.trim() }); }

    async draw(address, body) {
      this.stop();
      const aborter = this.aborter = new AbortController();
      this.match = null;
      this.state("drawing");
      this.progress(0);
      this.say("Both are drawing; they are shown together when both are done.");
      this.caption("left", "");
      this.caption("right", "");
      let ended = false;
      try {
        const pictures = {};
        await nitro.readStream(address, body, aborter.signal, (header, blob) => {
          if (this.aborter !== aborter) return;
          if (header.event === "match") this.match = header;
          if (header.event === "match") this.find(".nc-vote-question").textContent = header.prompt;
          if (header.event === "progress") this.progress(header.share);
          if (header.event === "picture") pictures[header.slot] = blob;
          if (header.event === "failed") {
            ended = true;
            this.say(header.message, "error");
          }
          if (header.event === "superseded") ended = true;
        });
        if (this.aborter !== aborter) return;
        if (SIDES.every((side) => pictures[side])) {
          await Promise.all(SIDES.map((side) => this.show(side, pictures[side])));
          this.shown();
        } else if (!ended) throw new Error("The pictures did not arrive. Take the next match.");
        else this.state("idle");
      } catch (error) {
        if (aborter.signal.aborted) return;
        this.state("idle");
        this.say(error.message, "error");
      }
    }

    async show(side, blob) {
      const bitmap = await createImageBitmap(blob);
      const canvas = this.find(`[data-side=${side}] canvas`);
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      canvas.setAttribute("aria-label", `${side === "left" ? "Left" : "Right"} picture of: ${this.match.prompt}`);
      bitmap.close();
    }

    shown() {
      this.progress(1);
      if (this.match.left) { // a replay: who is who is known
        this.reveal(this.match);
        this.state("told");
        this.say("Drawn again from its seed.", "quiet");
        return;
      }
      this.state("asking");
      this.say("Which is better? Arrow keys: left, right, up for a tie, down for both bad.");
    }

    async choose(choice) {
      if (this.root.dataset.state !== "asking") return;
      const { match } = this;
      this.state("voting");
      this.buttons.forEach((button) => button.setAttribute("aria-pressed",
        String(button.dataset.choice === choice)));
      try {
        const response = await nitro.call("votes/vote", { method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ match: match.match, choice }) });
        const told = await response.json();
        if (this.match !== match) return; // another match is under way: its names are not told
        this.reveal(told);
        this.state("told");
        this.say("Thank you, your vote is kept. N takes the next match.", "quiet");
        this.find(".nc-vote-next").focus();
        this.board();
      } catch (error) {
        if (this.match !== match) return;
        this.state([404, 409].includes(error.status) ? "idle" : "asking");
        this.say(error.message, "error");
      }
    }

    reveal(told) {
      for (const side of SIDES) this.caption(side, title(told[side]));
    }

    caption(side, words) { this.find(`[data-side=${side}] figcaption`).textContent = words; }

    progress(share) { this.find(".nc-vote-progress i").style.transform = `scaleX(${share})`; }

    async board() {
      const line = this.find(".nc-board-words");
      let told;
      try {
        told = await (await nitro.call("votes/board")).json();
      } catch (error) {
        line.textContent = error.message;
        return;
      }
      const rows = told.ratings;
      line.textContent = told.votes
        ? `${told.votes} ${told.votes === 1 ? "vote" : "votes"}, of these ${told.both_bad} "both bad". `
          + "Bradley-Terry, 1000 on average; 400 points are odds of ten to one."
        : "Nobody has voted here yet. The first vote starts the table.";
      const table = this.find(".nc-board-table");
      table.hidden = !rows.length;
      const cell = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
      const whole = (value) => (value === null ? "–" : String(Math.round(value)));
      table.tBodies[0].replaceChildren(...rows.map((row) => {
        const line = document.createElement("tr");
        const name = cell("th", title(row.variant));
        name.scope = "row";
        line.append(name, cell("td", whole(row.rating)),
          cell("td", row.rating === null ? "–" : `${whole(row.low)} to ${whole(row.high)}`),
          cell("td", row.win_rate === null ? "–" : `${Math.round(100 * row.win_rate)} %`),
          cell("td", String(row.votes)));
        return line;
      }));
      this.list(".nc-board-pairs", told.pairs.map(({ pair, votes }) =>
        cell("li", `${title(pair[0])} and ${title(pair[1])}: ${votes}`)));
      this.list(".nc-board-last", told.last.map(({ match, prompt }) => {
        const item = document.createElement("li");
        const button = cell("button", prompt);
        Object.assign(button, { type: "button", className: "nc-tool" });
        button.dataset.match = match;
        item.append(button);
        return item;
      }));
    }

    list(name, items) {
      const box = this.find(name);
      box.hidden = !items.length;
      box.querySelector("ul").replaceChildren(...items);
    }
  }

  const title = (id) => nitro.card(id)?.title ?? id;

  nitro.Vote = Vote;
})(window.nitro);
