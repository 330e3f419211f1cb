// Tables that can be sorted, the switch of light and dark, and what is packed and unpacked, and what is opened for paper.

const NUMBER = /^<?([-\u2212]?[\d.]+(?:e[-+]?\d+)?)/; // "<0.001" too

function valueOf(cell) {
  const text = cell.textContent.trim();
  const found = NUMBER.exec(text);
  return text === "–" ? null : found ? Number(found[1].replace("\u2212", "-")) : text;
}

const byName = new Intl.Collator("en", { numeric: true });

function compareValues(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return byName.compare(String(a), String(b));
}

function sortBy(table, column, down) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, place) => ({ row, place, value: valueOf(row.cells[column]) }));
  const there = rows.filter((r) => r.value !== null);
  const missing = rows.filter((r) => r.value === null); // last, whichever way
  there.sort((a, b) => (down ? -1 : 1) * compareValues(a.value, b.value) || a.place - b.place);
  body.append(...[...there, ...missing].map((r) => r.row));
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sortBy(table, column, down);
    });
  });
}

async function unpack(id) {
  const letters = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(letters), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
});

const contents = document.getElementById("contents");
if (matchMedia("(max-width: 52rem)").matches) contents.open = false;

addEventListener("beforeprint", () => document.querySelectorAll("main details").forEach((d) => (d.open = true)));
