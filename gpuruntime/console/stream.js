// A stream of server-sent events by fetch, since an EventSource cannot say who calls.

import { errorOf } from "./api.js";
import { authorization } from "./session.js";

const SILENT_MS = 45_000; // three heartbeats
const HIDDEN_MS = 20_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;
const MOST_HELD = 16 * 1024 * 1024;

/** Whole events of the text so far, and what is left of it. */
export function eventsIn(text) {
  const pieces = text.split("\n\n");
  const rest = pieces.pop();
  const events = [];
  for (const piece of pieces) {
    let name = "";
    let data = "";
    for (const line of piece.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
    }
    if (name) events.push({ name, data: JSON.parse(data) });
  }
  return { events, rest };
}

/**
 * Follows a stream until it is stopped: connects again where it ends, at once where it went well,
 * ever more rarely where it did not, and not at all while nobody looks.
 */
export class Stream {
  constructor(path, { onEvent, onState }) {
    this.path = path;
    this.onEvent = onEvent;
    this.onState = onState;
    this.isStopped = false;
    this.abort = null;
    this.wake = null;
    this.heed = () => this.visibilityChanged();
    document.addEventListener("visibilitychange", this.heed);
    this.run();
  }

  stop() {
    this.isStopped = true;
    document.removeEventListener("visibilitychange", this.heed);
    clearTimeout(this.hiding);
    this.abort?.abort();
    this.wake?.();
  }

  visibilityChanged() {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(() => this.abort?.abort(), HIDDEN_MS);
    else this.wake?.();
  }

  async run() {
    let wait = FIRST_WAIT_MS;
    while (!this.isStopped) {
      try {
        await this.once();
        wait = FIRST_WAIT_MS;
      } catch (error) {
        if (this.isStopped) return;
        if (error.status === 401 || error.status === 403 || error.status === 400) {
          this.onState({ state: "refused", error });
          return;
        }
        if (!document.hidden) this.onState({ state: "lost", error });
        if (this.heard) wait = FIRST_WAIT_MS;
        await this.pause(wait * (0.5 + Math.random()));
        wait = Math.min(wait * 2, LONGEST_WAIT_MS);
      }
      if (document.hidden) await this.pause(2 ** 31 - 1);
    }
  }

  /** A fault of the page's own is none of the connection. */
  tell({ name, data }) {
    try {
      this.onEvent(name, data);
    } catch (error) {
      reportError(error);
    }
  }

  pause(milliseconds) {
    if (this.isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async once() {
    this.abort = new AbortController();
    this.heard = false;
    let silence = setTimeout(() => this.abort.abort(), SILENT_MS);
    try {
      const response = await fetch(this.path, {
        headers: { Accept: "text/event-stream", ...authorization() },
        signal: this.abort.signal,
        credentials: "omit",
        cache: "no-store",
      });
      if (!response.ok) throw await errorOf(response);
      this.onState({ state: "live" });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || this.isStopped) return;
        clearTimeout(silence);
        silence = setTimeout(() => this.abort.abort(), SILENT_MS);
        this.heard = true;
        const { events, rest } = eventsIn(text + value);
        text = rest;
        if (text.length > MOST_HELD) throw new Error("an event is too long");
        for (const each of events) this.tell(each);
      }
    } finally {
      clearTimeout(silence);
    }
  }
}
