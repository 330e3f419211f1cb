// The page of one question. Without this file the form posts and works; with it every answer is saved as it is given.

import { newName, Outbox } from "./outbox.js";
import { slider } from "./sliders.js";
import { put, span } from "./spans.js";

const IDLE_MS = 120000; // two minutes without a hand on the page count as away
const TYPING_MS = 800;

const form = document.getElementById("answers");
const words = form.dataset;
const line = document.getElementById("saved");

function say(state, { now, why } = {}) {
  line.dataset.state = state;
  const time = now && new Date(now).toLocaleTimeString(document.documentElement.lang, { hour: "2-digit", minute: "2-digit" });
  const text = { idle: words.idle, saving: words.saving, retry: words.retry, closed: words.closed,
    saved: words.saved.replace("{time}", time), refused: words.refused.replace("{why}", why) }[state];
  if (line.textContent !== text) line.textContent = text;
}

const outbox = new Outbox({
  url: words.save, csrf: form.elements.csrf.value, owner: words.owner, serverNow: Number(words.now), onState: say,
});

// ---- time on the page, time away left out
const visit = newName();
let active = 0;
let since = document.visibilityState === "visible" ? performance.now() : null;
let lastHand = performance.now();
function tick() {
  const now = performance.now();
  if (since !== null) active += Math.max(0, Math.min(now, lastHand + IDLE_MS) - since);
  since = document.visibilityState === "visible" ? now : null;
}
function hand() {
  tick();
  lastHand = performance.now();
}
for (const kind of ["pointerdown", "keydown", "scroll", "pointermove"]) addEventListener(kind, hand, { passive: true });
outbox.visit = () => {
  tick();
  return { question: words.question, occasion: Number(words.occasion), visit, active_ms: Math.round(active) };
};

// ---- answers
const sliders = new Map();
const typing = new Map();
function answer(field, value) {
  outbox.add({ question: words.question, occasion: Number(words.occasion), field, value });
}
for (const box of form.querySelectorAll("[data-slider]")) {
  const made = slider(box, { untouched: words.untouched, answer: (value) => answer(box.dataset.field, value) });
  sliders.set(made.field, made);
}
const passage = document.getElementById("passage");
for (const select of form.querySelectorAll("select[data-use]")) {
  put(select, form.elements[`was.${select.name}`].value, passage);
  span(select, passage);
}
form.addEventListener("change", (e) => {
  const { field } = e.target.dataset;
  if (!field || e.target.tagName === "TEXTAREA") return;
  e.target.closest("fieldset")?.classList.remove("missing");
  answer(field, e.target.type === "checkbox" && !e.target.checked ? "" : e.target.value);
  several();
});
for (const area of form.querySelectorAll("textarea[data-field]")) {
  let last = area.value;
  const save = () => {
    clearTimeout(typing.get(area));
    if (area.value === last) return;
    last = area.value;
    answer(area.dataset.field, area.value);
  };
  area.addEventListener("input", () => {
    clearTimeout(typing.get(area));
    typing.set(area, setTimeout(save, TYPING_MS));
  });
  area.addEventListener("change", save);
  area.addEventListener("mhbench:save", save);
}
function endTyping() {
  for (const area of typing.keys()) area.dispatchEvent(new Event("mhbench:save"));
  for (const made of sliders.values()) made.typed();
}

// Kinds of error: the main one is asked where several are ticked, the place of each where it is ticked.
function several() {
  const main = form.querySelector("[data-main]");
  if (!main) return;
  const ticked = form.querySelectorAll("[data-flag]:checked");
  main.hidden = ticked.length < 2;
  for (const box of form.querySelectorAll("[data-span]")) {
    box.hidden = !form.elements[box.dataset.span].checked;
  }
}

// ---- values that come from elsewhere: another tab, another device, or this browser's own outbox after a reload
function putIn(field, value) {
  if (sliders.has(field)) sliders.get(field).show(value);
  for (const input of form.querySelectorAll(`[data-field="${field}"]`)) {
    if (input.type === "radio" || input.type === "checkbox") input.checked = input.value === value;
    else if (input.tagName === "SELECT") put(input, value, passage);
    else if (input.tagName === "TEXTAREA") input.value = value;
  }
}
function show(answers) {
  const waiting = new Set(outbox.pending().map((c) => c.field));
  for (const [field, value] of Object.entries(answers)) {
    if (!waiting.has(field) && document.activeElement?.closest("[data-field]")?.dataset.field !== field) putIn(field, value);
  }
  several();
}
async function refresh() {
  if (!(await outbox.flush())) return;
  try {
    const response = await fetch(words.state, { credentials: "same-origin" });
    if (response.ok) show((await response.json()).answers);
  } catch { /* out of reach: the page stays as it is */ }
}

// ---- coming, going, onward
const button = form.querySelector("button[value=next]");
form.addEventListener("submit", async (e) => {
  e.preventDefault();
  endTyping();
  if (e.submitter?.value === "back") { // what is not saved yet waits in this browser, and is sent from there
    outbox.flush();
    return location.assign(words.back);
  }
  button.disabled = true;
  const saved = await outbox.flush();
  button.disabled = false;
  if (saved) location.assign(words.onward);
});
addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit(button);
});
document.addEventListener("visibilitychange", () => {
  tick();
  if (document.visibilityState === "hidden") {
    endTyping();
    outbox.beacon();
  } else {
    lastHand = performance.now();
    refresh();
  }
});
addEventListener("pagehide", () => {
  endTyping();
  outbox.beacon();
});
addEventListener("pageshow", (e) => {
  button.disabled = false;
  if (e.persisted || outbox.pending().length) refresh();
});

say("idle");
for (const change of outbox.pending()) {
  if (change.question === words.question && change.occasion === Number(words.occasion)) putIn(change.field, change.value);
}
several();
document.getElementById("note")?.focus();
document.documentElement.dataset.ready = "yes";
