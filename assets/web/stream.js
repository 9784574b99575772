/* Reads generations from the server: the binary stream, and Gradio's event stream where that
   one is broken by something in between. Both call onEvent(header, jpegBlobOrNull). */
"use strict";
window.nitro = window.nitro || {};

(function (nitro) {
  const SESSION_HEADER = "x-nitro-session";
  let session = null;

  class ServerError extends Error {
    constructor(status, message, retryAfter) {
      super(message);
      this.status = status;
      this.retryAfter = retryAfter;
    }
  }

  /* Addresses follow the page (Gradio puts its root into a <base>), so that prefixes and proxies
     work, with or without a final slash. */
  function address(path) {
    const base = new URL(document.baseURI);
    if (!base.pathname.endsWith("/")) base.pathname += "/";
    return new URL(path, base).href;
  }

  async function failure(response) {
    let body = {};
    try { body = await response.json(); } catch { /* not ours: a proxy's page */ }
    const words = body.error || `The server answered ${response.status}.`;
    return new ServerError(response.status, words, body.retry_after_s);
  }

  async function openSession() {
    if (session) return session;
    const response = await fetch(address("canvas/session"), { method: "POST" });
    if (!response.ok) throw await failure(response);
    session = (await response.json()).session;
    return session;
  }

  /* fetch with this page's session; a restarted server gets a new one asked for, once. */
  async function call(path, options = {}, again = true) {
    const headers = { ...options.headers, [SESSION_HEADER]: await openSession() };
    const response = await fetch(address(path), { ...options, headers });
    if (response.status === 401 && again) {
      session = null;
      return call(path, options, false);
    }
    if (!response.ok) throw await failure(response);
    return response;
  }

  /* Collects chunks and hands out exact byte counts. */
  class Bytes {
    constructor() { this.parts = []; this.size = 0; }
    push(part) { this.parts.push(part); this.size += part.length; }
    take(count) {
      const out = new Uint8Array(count);
      let at = 0;
      while (at < count) {
        const part = this.parts[0];
        const used = Math.min(part.length, count - at);
        out.set(part.subarray(0, used), at);
        at += used;
        if (used === part.length) this.parts.shift();
        else this.parts[0] = part.subarray(used);
      }
      this.size -= count;
      return out;
    }
  }

  async function* messages(response) {
    const bytes = new Bytes();
    const reader = response.body.getReader();
    let lengths = null;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      bytes.push(value);
      for (;;) {
        if (!lengths) {
          if (bytes.size < 8) break;
          const view = new DataView(bytes.take(8).buffer);
          lengths = [view.getUint32(0), view.getUint32(4)];
        }
        if (bytes.size < lengths[0] + lengths[1]) break;
        const header = JSON.parse(new TextDecoder().decode(bytes.take(lengths[0])));
        const body = lengths[1] ? bytes.take(lengths[1]) : null;
        lengths = null;
        yield [header, body && new Blob([body], { type: "image/jpeg" })];
      }
    }
  }

  const isEnd = (header) => ["finished", "superseded", "failed"].includes(header.event);

  /* POST a body and hand out the answer's messages as they come. */
  async function readStream(path, body, signal, onEvent) {
    const response = await call(path, {
      method: "POST",
      signal,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    for await (const [header, picture] of messages(response)) {
      if (signal.aborted) return;
      onEvent(header, picture);
    }
  }

  async function streamRaw(requests, signal, onEvent) {
    let open = requests.length;
    await readStream("canvas/stream", { requests }, signal, (header, picture) => {
      if (isEnd(header)) open -= 1;
      onEvent(header, picture);
    });
    if (signal.aborted) return;
    if (open > 0) throw new ServerError(0, "The picture's stream ended early.");
  }

  /* Gradio's own event for one request: POST for an event id, then server-sent events. */
  async function streamGradio(requests, signal, onEvent) {
    const r = requests[0].request;
    // Gradio's inputs go by place; null is the server's default.
    const data = [r.prompt, r.variant, r.seed, r.ar_iterations, r.flow_steps, r.cfg_scale,
      r.cfg_schedule, r.temperature, r.preview_every, r.caption, r.count, r.picture, r.strength,
      r.free, r.context, r.fork_of, r.fork_step, r.size].map((value) => value ?? null);
    const posted = await fetch(address("gradio_api/call/generate"), {
      method: "POST",
      signal,
      headers: { "content-type": "application/json", [SESSION_HEADER]: await openSession() },
      body: JSON.stringify({ data }),
    });
    if (!posted.ok) throw await failure(posted);
    const { event_id: id } = await posted.json();
    const answer = await fetch(address(`gradio_api/call/generate/${id}`), { signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      const blocks = (text + value).split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = /^event: (.*)$/m.exec(block)?.[1];
        const payload = JSON.parse(/^data: (.*)$/m.exec(block)?.[1] || "null");
        if (event === "error") throw new ServerError(400, payload?.error || payload || "It failed.");
        if (event !== "generating" || !payload) continue;
        const [[header, uri]] = payload; // one output: the pair
        onEvent(header, uri ? await (await fetch(uri)).blob() : null);
      }
    }
  }

  const forgetSession = () => { session = null; };

  Object.assign(nitro, { ServerError, address, call, forgetSession, readStream, streamRaw,
    streamGradio });
})(window.nitro);
