// The list of every answer: unpacked once, filtered by columns, drawn only where it is looked at.

const LINE = 36; // pixels, as in the style sheet
const FILTERS = ["study", "model", "mode", "category", "topic", "set", "what", "judges"];
const WITHIN = { category: "", topic: "", set: "", mode: "", find: "" };
const spaced = (name) => String(name).replaceAll("_", " ");

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (k === "on") for (const [event, f] of Object.entries(v)) e.addEventListener(event, f);
    else if (v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

class Answers {
  constructor(table) {
    this.n = table.n;
    this.columns = table.columns;
  }
  get(row, name) {
    const c = this.columns[name];
    if (Array.isArray(c)) return c[row];
    return c.codes[row] < 0 ? null : c.values[c.codes[row]];
  }
  values(name) {
    const c = this.columns[name];
    return Array.isArray(c) ? [] : c.values;
  }
  where(wanted) { // {column: value}, and `find` for a part of the id -> row numbers
    const tests = [];
    for (const [name, value] of Object.entries(wanted)) {
      if (!value || name === "find" || !this.columns[name]) continue;
      const column = this.columns[name];
      const code = column.values.indexOf(value);
      tests.push((r) => column.codes[r] === code);
    }
    if (wanted.find) {
      const has = this.columns.item_id.values.map((v) => v.toLowerCase().includes(wanted.find.toLowerCase()));
      tests.push((r) => has[this.columns.item_id.codes[r]]);
    }
    const out = [];
    for (let r = 0; r < this.n; r++) if (tests.every((t) => t(r))) out.push(r);
    return out;
  }
  name(row) {
    return ["study", "item_id", "model", "mode", "sample"].map((c) => encodeURIComponent(this.get(row, c))).join("/");
  }
  find(name) {
    const [study, item_id, model, mode, sample] = name.split("/").map(decodeURIComponent);
    return this.where({ study, item_id, model, mode }).find((r) => String(this.get(r, "sample")) === sample);
  }
}

// ---------------------------------------------------------------- two models on the same questions

const FEWEST = 6; // cases, for an interval: mhbench.stats.estimate.fewest_clusters

function quantile(df) { // of Student's t, 97.5%: its density is cos^(df - 1) of the angle whose tangent is t / sqrt(df)
  const steps = 4000, h = Math.PI / 2 / steps, f = (k) => Math.max(0, Math.cos(k * h)) ** (df - 1);
  const below = [0];
  for (let k = 0; k < steps; k += 2) below.push(below.at(-1) + (h / 3) * (f(k) + 4 * f(k + 1) + f(k + 2)));
  const wanted = 0.95 * below.at(-1);
  const k = below.findIndex((area) => area >= wanted);
  return Math.sqrt(df) * Math.tan(2 * h * (k - (below[k] - wanted) / (below[k] - below[k - 1])));
}

function scoreLimits(b, c, n, z) { // Tango 1998, as mhbench.stats.differences.score_limits
  const score = (delta) => {
    const linear = -b - c + (2 * n - b + c) * delta;
    const q = (Math.sqrt(Math.max(linear ** 2 + 8 * n * c * delta * (1 - delta), 0)) - linear) / (4 * n);
    return Math.abs(b - c - n * delta) / Math.sqrt(Math.max(n * (2 * q + delta * (1 - delta)), 1e-300));
  };
  return [-1, 1].map((outside) => {
    let inside = (b - c) / n;
    for (let k = 0; k < 44; k++) {
      const middle = (inside + outside) / 2;
      if (score(middle) <= z) inside = middle; else outside = middle;
    }
    return (inside + outside) / 2;
  });
}

function pairedDifference(differences, cases) { // of shares: mhbench.stats.differences.mean_difference(largest=1)
  const n = differences.length, mean = differences.reduce((s, d) => s + d, 0) / n, of = new Map();
  differences.forEach((d, i) => {
    const at = of.get(cases[i]) || { size: 0, residual: 0 };
    of.set(cases[i], { size: at.size + 1, residual: at.residual + d - mean });
  });
  const groups = [...of.values()], sum = (f) => groups.reduce((s, g) => s + f(g), 0);
  if (groups.length < FEWEST) return { mean, low: NaN, high: NaN, cases: groups.length };
  const a = (g) => 1 / (1 - g.size / n); // units alike in no case: Bell and McCaffrey 2002
  const variance = sum((g) => a(g) * g.residual ** 2) / n ** 2;
  const wide = sum((g) => a(g) * g.size ** 2) ** 2 - sum((g) => a(g) ** 2 * g.size ** 4);
  const df = n ** 2 / (sum((g) => g.size ** 2) + wide / n ** 2);
  const part = (sign) => differences.reduce((s, d) => s + Math.max(sign * d, 0), 0) / n;
  const won = part(1), lost = part(-1), simple = won + lost - mean ** 2;
  const single = groups.length === n && differences.every((d) => [-1, 0, 1].includes(d));
  let effective = simple > 1e-12 && variance > 1e-15 ? simple / variance : groups.length;
  if (single) effective = n;
  const z = single ? 1.959963984540054 : quantile(Math.max(df, 1));
  const [low, high] = scoreLimits(won * effective, lost * effective, effective, z);
  return { mean, low, high, cases: groups.length };
}

function flipped(differences, cases) { // exact two-sided p of signs flipped by case: mhbench.stats.tests.sign_flip_test
  const totals = new Map();
  differences.forEach((d, i) => totals.set(cases[i], (totals.get(cases[i]) || 0) + d));
  const sizes = [...totals.values()].map(Math.abs).filter((t) => t > 1e-12);
  if (sizes.some((t) => !Number.isInteger(t))) return NaN; // shares over several answers have too many sums
  let law = [1]; // chances of the sum of the sizes that are left positive
  for (const t of sizes) {
    const next = new Array(law.length + t).fill(0);
    law.forEach((chance, k) => { next[k] += chance / 2; next[k + t] += chance / 2; });
    law = next;
  }
  const whole = law.length - 1, seen = Math.abs([...totals.values()].reduce((s, t) => s + t, 0));
  return Math.min(1, law.reduce((s, chance, k) => s + (Math.abs(2 * k - whole) >= seen ? chance : 0), 0));
}

function pairs(answers, wanted, other) { // rows of the two models that answer the same question in the same mode
  const key = (r) => ["study", "item_id", "mode", "sample"].map((c) => answers.get(r, c)).join("\u0001");
  const there = new Map(answers.where({ ...wanted, model: other, what: "" }).map((r) => [key(r), r]));
  return answers.where({ ...wanted, what: "" }).map((r) => [r, there.get(key(r))]).filter((p) => p[1] !== undefined);
}

// ---------------------------------------------------------------- the page

class Explorer {
  constructor(answers, place) {
    this.answers = answers;
    this.place = place;
    this.texts = null;
    this.state = {};
    this.rows = [];
    this.build();
    addEventListener("hashchange", () => this.fromHash());
    this.fromHash();
  }

  build() {
    const choose = (name, values, label) => {
      const all = element("option", { value: "" }, name === "beside" ? "–" : "all");
      const sorted = [...values].sort(byName.compare);
      const select = element("select", { name }, all, ...sorted.map((v) => element("option", { value: v }, spaced(v))));
      const of = name === "study" ? WITHIN : {}; // another study has other questions
      select.addEventListener("change", () => this.set({ ...of, [name]: select.value }));
      return element("label", {}, label || spaced(name), select);
    };
    const filters = FILTERS.filter((f) => this.answers.values(f).length > 1).map((f) => choose(f, this.answers.values(f)));
    const find = element("input", { name: "find", type: "search", autocomplete: "off" });
    let wait;
    find.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(() => this.set({ find: find.value }), 120);
    });
    const only = element("input", { type: "checkbox", name: "differ" });
    only.addEventListener("change", () => this.set({ differ: only.checked ? "1" : "" }));
    this.form = element("form", { class: "filters", "aria-label": "Which answers", on: { submit: (e) => e.preventDefault() } },
      ...filters, element("label", {}, "item id contains", find),
      choose("beside", this.answers.values("model"), "compared with"),
      element("label", { class: "box" }, only, "only where the two differ"),
      element("button", { type: "button", on: { click: () => this.set(null) } }, "Show all"),
      element("button", { type: "button", on: { click: () => this.download() } }, "Download these as CSV"));
    this.count = element("p", { role: "status", class: "small" });
    this.paired = element("div");
    this.heads = element("div", { class: "line heads", role: "row" });
    this.all = element("div", { class: "all", role: "presentation" });
    this.list = element("div", { class: "list", tabindex: "0", role: "rowgroup", "aria-label": "Answers, scroll for more" }, this.all);
    this.one = element("div", { "aria-live": "polite" });
    this.table = element("div", { role: "table", "aria-label": "Answers" }, element("div", { role: "rowgroup" }, this.heads), this.list);
    this.place.append(this.form, this.paired, this.count, this.table, this.one);
    this.list.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    addEventListener("resize", () => this.draw());
  }

  fromHash() {
    const hash = location.hash.slice(1);
    if (hash.startsWith("row=")) {
      const row = this.answers.find(hash.slice(4));
      if (!this.drawn) this.filter();
      if (row !== undefined) this.show(row);
      return;
    }
    const [where, query] = hash.split("?");
    if (where !== "items") {
      if (!this.drawn) this.filter();
      return;
    }
    this.state = Object.fromEntries(new URLSearchParams(query || ""));
    this.filter();
    if (query) document.getElementById("items").scrollIntoView();
  }

  set(change) {
    this.state = change === null ? {} : { ...this.state, ...change };
    const said = new URLSearchParams(Object.entries(this.state).filter(([, v]) => v));
    history.replaceState(null, "", "#items" + (said.size ? "?" + said : ""));
    this.filter();
  }

  filter() {
    this.drawn = true;
    for (const field of this.form.elements) {
      if (!field.name) continue;
      if (field.type === "checkbox") field.checked = Boolean(this.state[field.name]);
      else if (document.activeElement !== field) field.value = this.state[field.name] || "";
    }
    const { beside, differ, ...wanted } = this.state;
    this.two = Boolean(beside && wanted.model && beside !== wanted.model);
    if (this.two) {
      const found = pairs(this.answers, wanted, beside);
      this.rows = found.filter(([a, b]) => (!differ || this.answers.get(a, "correct") !== this.answers.get(b, "correct"))
        && (!wanted.what || this.answers.get(a, "what") === wanted.what));
      this.paired.replaceChildren(this.compared(found, wanted.model, beside));
    } else {
      this.rows = this.answers.where(wanted);
      this.paired.replaceChildren(...(beside ? [element("p", { class: "small" }, "Choose a model, and another to compare it with.")] : []));
    }
    const of = this.two ? "questions that both answered in the same mode" : `answers of ${this.answers.n}`;
    this.count.textContent = `${this.rows.length} ${of}`;
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.all.style.height = `${this.rows.length * LINE}px`;
    this.list.scrollTop = 0;
    this.draw(true);
  }

  compared(found, first, second) {
    const right = found.map(([a, b]) => [this.answers.get(a, "correct"), this.answers.get(b, "correct"), this.answers.get(a, "cluster")])
      .filter(([a, b]) => a !== null && b !== null);
    if (!right.length) return element("p", { class: "paired" }, `${first} and ${second}: none of these questions was scored for both.`);
    const onlyFirst = right.filter(([a, b]) => a === 1 && b === 0).length;
    const onlySecond = right.filter(([a, b]) => a === 0 && b === 1).length;
    const differences = right.map(([a, b]) => a - b), cases = right.map((r) => r[2]);
    const d = pairedDifference(differences, cases), p = flipped(differences, cases);
    const ends = Number.isNaN(d.low) ? `no interval: ${d.cases} independent case${d.cases > 1 ? "s" : ""}, and at least ${FEWEST} are needed`
      : `95% interval ${d.low.toFixed(3)} to ${d.high.toFixed(3)}, cases as a sample`;
    const test = Number.isNaN(p) ? " No exact test: scores are not 0 and 1."
      : ` Signs of whole cases flipped, exactly: p = ${p < 0.001 ? "< 0.001" : p.toFixed(3)}.`;
    return element("p", { class: "paired", "data-first": onlyFirst, "data-second": onlySecond, "data-p": p, "data-mean": d.mean, "data-low": d.low, "data-high": d.high },
      `${right.length} questions scored for both. Only ${first} was right in ${onlyFirst}, only ${second} in ${onlySecond}.`
      + ` Difference ${d.mean.toFixed(3)} (${ends}).${test}`
      + " Each filter that you try is one more test: with no true difference, one in twenty has p below 0.05.");
  }

  draw(anew = false) {
    const two = this.two;
    const columns = two ? ["item_id", "first", "second", "answers"] : ["item_id", "study", "model", "mode", "what", "answer", "key", "judged"];
    const less = new Set(["study", "mode", "answer", "key", "judged", "answers"]);
    const narrow = matchMedia("(max-width: 52rem)").matches;
    const widths = columns.filter((c) => !narrow || !less.has(c)).map((c) => (c === "item_id" || c === "judged" ? "minmax(0,2fr)" : "minmax(0,1fr)")).join(" ");
    if (anew) {
      const names = { first: this.state.model, second: this.state.beside, answers: "answer, answer; key" };
      this.heads.style.gridTemplateColumns = widths;
      this.heads.replaceChildren(...columns.map((c) => element("span", { role: "columnheader", class: less.has(c) ? "less" : "" }, names[c] || spaced(c))));
    }
    const from = Math.max(0, Math.floor(this.list.scrollTop / LINE) - 5);
    const to = Math.min(this.rows.length, from + Math.ceil(this.list.clientHeight / LINE) + 10);
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.row : null;
    const lines = [];
    for (let k = from; k < to; k++) {
      const [row, other] = two ? this.rows[k] : [this.rows[k]];
      const cell = (c) => this.cell(c, row, other);
      lines.push(element("div", { class: "line", role: "row", "aria-rowindex": k + 2, style: `top:${k * LINE}px;grid-template-columns:${widths}` },
        ...columns.map((c) => element("span", { role: "cell", class: less.has(c) ? "less" : "" }, cell(c)))));
    }
    this.all.replaceChildren(...lines);
    if (focused) this.all.querySelector(`button[data-row="${focused}"]`)?.focus({ preventScroll: true });
  }

  cell(column, row, other) {
    const get = (c, r = row) => this.answers.get(r, c);
    if (column === "item_id") return element("button", { type: "button", "data-row": row, on: { click: () => this.show(row) } }, get("item_id"));
    if (column === "what" || column === "first") return became(get("what"));
    if (column === "second") return became(get("what", other));
    if (column === "answers") return `${get("answer") ?? "–"}, ${get("answer", other) ?? "–"}; ${get("key") ?? "–"}`;
    return spaced(get(column) ?? "–");
  }

  async show(row) {
    this.texts ??= await unpack("texts");
    const get = (c) => this.answers.get(row, c);
    const item = this.texts.items[`${get("study")}/${get("item_id")}`];
    const said = this.texts.answers[String(row)];
    const part = (name, text) => (text ? [element("dt", {}, name), element("dd", {}, element("pre", {}, text))] : []);
    const facts = ["study", "cluster", "category", "topic", "set", "task", "model", "origin", "mode", "sample", "what", "correct", "answer", "key", "confidence", "judged", "judges"]
      .filter((c) => get(c) !== null).flatMap((c) => part(spaced(c), spaced(get(c))));
    const asked = !item ? [] : [
      ...Object.entries(item.context || {}).flatMap(([k, v]) => part(k, v)), ...part("question", item.question),
      ...part("parts", (item.stems || []).join("\n")),
      ...part("options", (item.options || []).map((o, i) => `${"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] ?? i + 1}. ${o}${item.soft ? `  (soft label ${item.soft[i].toFixed(2)})` : ""}`).join("\n")),
      ...part("reference", (item.key || []).join(" ")), ...part("expert's rationale", item.rationale), ...part("people", (item.rated || []).join("\n")),
    ];
    const words = !said ? [] : [...part("reasoning", said.reasoning), ...part("answer", said.text), ...part("error", said.error),
      ...(said.verdicts || []).flatMap((v) => part(`${v.judge} judged`, `${v.verdict}${v.text ? "\n" + v.text : ""}`))];
    const others = this.answers.where({ study: get("study"), item_id: get("item_id") }).filter((r) => r !== row);
    const links = others.slice(0, 60).map((r) => element("li", {}, element("a", { href: "#row=" + this.answers.name(r) },
      `${this.answers.get(r, "model")}, ${spaced(this.answers.get(r, "mode"))}: ${this.answers.get(r, "what")}`)));
    const heading = element("h3", { tabindex: "-1" }, `${get("item_id")}, ${get("model")}`);
    const hidden = item ? null : element("p", { class: "small" }, "The texts of this item are protected, or were not kept: ids and scores only.");
    this.one.replaceChildren(element("section", { class: "one", "data-row": row }, heading, element("dl", {}, ...facts, ...asked, ...words), hidden,
      links.length ? element("h4", {}, "Other answers to this question") : null, links.length ? element("ul", {}, ...links) : null,
      element("p", {}, element("a", { href: "#row=" + this.answers.name(row) }, "Link to this answer"))));
    history.replaceState(null, "", "#row=" + this.answers.name(row));
    heading.scrollIntoView({ block: "start" });
    heading.focus({ preventScroll: true });
  }

  download() {
    const columns = Object.keys(this.answers.columns);
    const quoted = (v) => (v === null ? "" : /[",\n]/.test(String(v)) ? `"${String(v).replaceAll('"', '""')}"` : String(v));
    const rows = this.two ? this.rows.flat() : this.rows;
    const lines = [columns.join(","), ...rows.map((r) => columns.map((c) => quoted(this.answers.get(r, c))).join(","))];
    const link = element("a", { href: URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" })), download: "answers.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

function became(what) {
  return element("span", { class: what === "right" ? "right" : ["wrong", "unread", "refused", "failed"].includes(what) ? "not" : "" }, what);
}

const explorer = document.getElementById("explorer");
if (explorer) {
  unpack("rows").then((table) => {
    window.mhbench = { explorer: new Explorer(new Answers(table), explorer), pairedDifference, flipped };
    document.documentElement.dataset.ready = "1";
  });
} else document.documentElement.dataset.ready = "1";
