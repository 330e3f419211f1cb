// On the page of search results, functions come first, found by what they do. The index, functions.js, is made by
// docs/finder.py, whose `ranked` does the same as `ranked` here; a script and not JSON, so that a file:// page may load it.
"use strict";

const ENDINGS = /(?:isons?|ations?|ated|ements?|ments?|ings?|ities|ity|ies|ed|es|e|s|y)$/;

function stem(word) {
  const cut = word.replace(ENDINGS, "");
  return cut.length >= 3 ? cut : word;
}

function words(text, stop) {
  const apart = text.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  const found = apart.match(/[a-z]{2,}|\d+/g) || [];
  return found.filter((w) => !stop.includes(w)).map(stem);
}

function ranked(index, query, most = 10) {
  const total = new Map(), n = new Map();
  for (const word of new Set(words(query, index.stop))) {
    const best = new Map();
    const others = (index.same[word] || []).map((w) => [w, index.synonym]);
    for (const [other, weight] of [[word, 1], ...others]) {
      for (const [k, w] of index.words[other] || []) best.set(k, Math.max(best.get(k) || 0, weight * w));
    }
    for (const [k, w] of best) {
      total.set(k, (total.get(k) || 0) + w);
      n.set(k, (n.get(k) || 0) + 1);
    }
  }
  const score = (k) => total.get(k) * n.get(k);
  const order = [...total.keys()].sort((a, b) => score(b) - score(a) || a - b);
  return order.slice(0, most).map((k) => index.functions[k]);
}

function show(results) {
  const query = new URLSearchParams(window.location.search).get("q") || "";
  const found = ranked(window.FUNCTIONS, query);
  const part = document.createElement("section");
  part.id = "functions-found";
  const head = document.createElement("h2");
  head.textContent = found.length ? "Functions" : "No function was found; pages:";
  const list = document.createElement("ul");
  for (const [name, module, sentence] of found) {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = `api/${module}.html#${name.toLowerCase().replaceAll("_", "-")}`;
    link.textContent = name;
    item.append(link, ` (${module}): ${sentence}`);
    list.append(item);
  }
  part.append(head, list);
  results.before(part);
}

if (typeof document !== "undefined") {
  window.addEventListener("DOMContentLoaded", () => {
    const results = document.getElementById("search-results");
    if (!results) return;
    const index = document.createElement("script");
    index.src = "functions.js";
    index.onload = () => show(results);
    document.head.append(index);
  });
} else {
  module.exports = { ranked };
}
