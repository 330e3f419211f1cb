// Changes that the server does not have yet. They lie in the browser's own store, one key each, until the server says
// that it has them: a reload, a closed tab, a lost network or a killed server loses none. Two tabs share the store.

const FIRST_DELAY = 1000;
const LONGEST_DELAY = 30000;
const AT_ONCE = 40;
const KEEPALIVE_BYTES = 50000; // browsers refuse more than 64 KiB in a request that outlives its page

class Memory {
  // Stands in where the browser lets nothing be stored: what is not sent is lost with the tab, so the page says so.
  constructor() { this.map = new Map(); }
  get length() { return this.map.size; }
  key(i) { return [...this.map.keys()][i]; }
  getItem(k) { return this.map.has(k) ? this.map.get(k) : null; }
  setItem(k, v) { this.map.set(k, String(v)); }
  removeItem(k) { this.map.delete(k); }
}

function storage() {
  try {
    localStorage.setItem("mhbench", "1");
    localStorage.removeItem("mhbench");
    return localStorage;
  } catch { return new Memory(); }
}

export function newName() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

export class Outbox {
  constructor({ url, csrf, owner, serverNow, onState }) {
    Object.assign(this, { url, csrf, onState });
    this.prefix = `mhbench.${owner}.`;
    this.store = storage();
    this.ahead = serverNow - Date.now(); // the server's clock, as far as we know it
    this.delay = FIRST_DELAY;
    this.timer = null;
    this.running = null;
    this.visit = null; // a function that gives the time spent on the page
    addEventListener("online", () => this.flush());
  }

  stamp() {
    // Larger than any before it in this browser, and close to the server's time: the larger stamp is the later answer.
    const last = Number(this.store.getItem(`${this.prefix}last`) || 0);
    const next = Math.max(last + 1, Date.now() + this.ahead);
    this.store.setItem(`${this.prefix}last`, next);
    return next;
  }

  pending() {
    const out = [];
    for (let i = 0; i < this.store.length; i++) {
      const key = this.store.key(i);
      if (key.startsWith(`${this.prefix}change.`)) out.push(JSON.parse(this.store.getItem(key)));
    }
    return out.sort((a, b) => a.stamp - b.stamp);
  }

  add(change) {
    const event = newName();
    const whole = { ...change, event, stamp: this.stamp(), client_ms: Date.now() };
    try {
      this.store.setItem(`${this.prefix}change.${event}`, JSON.stringify(whole));
    } catch { // full: keep it in memory rather than not at all
      this.store = Object.assign(new Memory(), { map: new Map(this.pending().map((c) => [`${this.prefix}change.${c.event}`, JSON.stringify(c)])) });
      this.store.setItem(`${this.prefix}change.${event}`, JSON.stringify(whole));
    }
    this.flush();
  }

  remove(events) {
    for (const event of events) this.store.removeItem(`${this.prefix}change.${event}`);
  }

  // True when the server has everything.
  async flush() {
    clearTimeout(this.timer);
    if (this.running) {
      await this.running;
      if (this.pending().length === 0) return true;
    }
    this.running = this.send();
    const done = await this.running;
    this.running = null;
    return done;
  }

  async send() {
    let changes = this.pending().slice(0, AT_ONCE);
    while (changes.length) {
      this.onState("saving");
      let reply = null;
      let status = 0;
      try {
        const response = await this.post(changes);
        status = response.status;
        if (response.ok) reply = await response.json();
      } catch { status = 0; }
      if (!reply) return this.later(status);
      this.ahead = reply.now - Date.now();
      this.delay = FIRST_DELAY;
      this.remove([...reply.saved, ...reply.refused.map((r) => r.event)]);
      if (reply.refused.length) this.onState("refused", { why: reply.refused[0].why });
      else this.onState("saved", { now: reply.now });
      changes = this.pending().slice(0, AT_ONCE);
    }
    return true;
  }

  post(changes) {
    const body = JSON.stringify({ changes, visit: this.visit ? this.visit() : null });
    const headers = { "Content-Type": "application/json", "X-CSRF-Token": this.csrf };
    return fetch(this.url, { method: "POST", headers, body, credentials: "same-origin", keepalive: body.length < KEEPALIVE_BYTES });
  }

  later(status) {
    this.onState(status === 401 || status === 403 ? "closed" : "retry");
    this.timer = setTimeout(() => this.flush(), this.delay);
    this.delay = Math.min(this.delay * 2, LONGEST_DELAY);
    return false;
  }

  // The time on a page, on its way out; nothing hangs on it.
  beacon() {
    if (this.visit && this.pending().length === 0) this.post([]).catch(() => {});
    else this.flush();
  }
}
