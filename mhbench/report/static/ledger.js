// The table of claims: filters by paper, place, kind and verdict, and a search. What is chosen stands in the address.

const form = document.getElementById("filters");
const shown = document.getElementById("shown");
const rows = [...document.getElementById("numbers").tBodies[0].rows].map((row) => ({
  row,
  paper: row.cells[0].textContent,
  place: row.cells[1].textContent,
  verdict: row.dataset.verdict,
  kind: row.dataset.kind,
  words: row.textContent.toLowerCase(),
}));
const places = [...form.elements.place.options];

function chosen() {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
}

function offerPlaces(paper) {
  const select = form.elements.place;
  const before = select.selectedOptions[0];
  const offered = places.filter((o) => !o.value || !paper || o.dataset.paper === paper);
  select.replaceChildren(...offered);
  select.selectedIndex = Math.max(offered.indexOf(before), 0);
}

function filterRows() {
  offerPlaces(form.elements.paper.value);
  const want = chosen();
  const words = want.words.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (const r of rows) {
    const same = ["paper", "place", "kind", "verdict"].every((name) => !want[name] || want[name] === r[name]);
    r.row.hidden = !(same && words.every((w) => r.words.includes(w)));
    n += !r.row.hidden;
  }
  const [some, all] = [n, rows.length].map((k) => k.toLocaleString("en"));
  shown.textContent = n === rows.length ? `${all} numbers.` : `${some} of ${all} numbers.`;
}

function remember() {
  const said = new URLSearchParams(Object.entries(chosen()).filter(([, value]) => value));
  history.replaceState(null, "", said.size ? `#claims?${said}` : "#claims");
}

function choose(values) {
  form.reset();
  offerPlaces(values.paper || "");
  for (const [name, value] of Object.entries(values)) if (form.elements[name]) form.elements[name].value = value;
  filterRows();
}

form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => { filterRows(); remember(); });
form.addEventListener("reset", () => setTimeout(() => { filterRows(); remember(); }));

for (const link of document.querySelectorAll("a[data-verdict]")) {
  link.addEventListener("click", () => {
    choose({ paper: link.dataset.paper, kind: link.dataset.kind, verdict: link.dataset.verdict });
    setTimeout(remember);
  });
}

// A link to one row shows it, whatever was filtered away before.
function follow() {
  const [place, said] = decodeURI(location.hash).slice(1).split("?");
  if (place === "claims" && said !== undefined) {
    choose(Object.fromEntries(new URLSearchParams(location.hash.split("?")[1])));
    document.getElementById("claims").scrollIntoView();
    return;
  }
  const target = document.getElementById(place);
  if (target && target.hidden) choose({});
  for (let inside = target; inside; inside = inside.parentElement) if (inside.tagName === "DETAILS") inside.open = true;
  if (target) target.scrollIntoView({ block: "center" });
}
addEventListener("hashchange", follow);
if (location.hash) follow();
