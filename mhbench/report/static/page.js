// The report alone: folded parts that open where a link or a search leads, and tables as CSV.

function openTo(place) {
  for (let e = place; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  if (place.id === "items") document.getElementById("list").open = true;
}

function follow() {
  const name = decodeURIComponent(location.hash.slice(1)).split("?")[0];
  const place = document.getElementById(name.startsWith("row=") ? "items" : name);
  if (!place) return;
  openTo(place);
  if (!name.startsWith("row=")) place.scrollIntoView();
}

addEventListener("hashchange", follow);
if (location.hash) follow();

// ---------------------------------------------------------------- search

const found = document.getElementById("found");
const find = document.getElementById("find");
const MOST = 40; // places that are named
let places;

function searched() { // every part that a search can lead to: where it is, what it is called, all its words
  const study = (e) => e.closest("section")?.querySelector("h2")?.textContent ?? "";
  const question = (e) => e.closest(".question")?.querySelector("h3")?.textContent ?? "";
  const place = (e, name) => ({ e, name, where: [study(e), question(e)].filter((w) => w && w !== name).join(": "),
    words: [study(e), question(e), e.textContent, ...[...e.querySelectorAll("img")].map((i) => i.alt)].join(" ").toLowerCase() });
  const named = (css, name) => [...document.querySelectorAll(css)].map((e) => place(e, name(e)));
  return [...named(".front", (e) => e.querySelector("h3")?.textContent ?? "Read this first"),
    ...named(".group > p, .group > .wrong > li, .question > p", (e) => e.textContent),
    ...named(".entry", (e) => e.querySelector(".caption").textContent),
    ...named("#words dt", (e) => e.textContent), ...named("#words dd", (e) => e.textContent)];
}

function search() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = !words.length;
  places ??= searched();
  const all = (text) => words.every((w) => text.includes(w));
  const hits = words.length ? places.filter((p) => all(p.words)) : [];
  hits.sort((a, b) => all(b.name.toLowerCase()) - all(a.name.toLowerCase()));
  const more = hits.length > MOST ? `, the first ${MOST} here` : "";
  found.querySelector("[role=status]").textContent = `${hits.length} ${hits.length === 1 ? "place" : "places"}${more}`;
  found.querySelector("ul").replaceChildren(...hits.slice(0, MOST).map((hit) => {
    const link = document.createElement("a");
    link.href = hit.e.id ? `#${hit.e.id}` : "#found";
    link.textContent = hit.name.length > 160 ? `${hit.name.slice(0, 160)} …` : hit.name;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      if (hit.e.id) history.replaceState(null, "", `#${hit.e.id}`);
      openTo(hit.e);
      hit.e.scrollIntoView({ block: "start" });
      const to = hit.e.querySelector("summary") ?? hit.e;
      if (to.tagName !== "SUMMARY") to.tabIndex = -1;
      to.focus({ preventScroll: true });
    });
    const line = document.createElement("li");
    line.append(link, hit.where ? ` ${hit.where}` : "");
    return line;
  }));
}

document.getElementById("search").hidden = false;
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.focus();
});
find.addEventListener("input", search);
find.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { find.value = ""; search(); }
});

// ---------------------------------------------------------------- CSV

for (const button of document.querySelectorAll(".csv")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const tables = await unpack("csv");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([tables[button.dataset.table]], { type: "text/csv" }));
    link.download = button.dataset.file;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

const list = document.getElementById("list");
if (list) {
  list.hidden = false;
  list.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
}
