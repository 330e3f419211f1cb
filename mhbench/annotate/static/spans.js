// Where in the text: the list of sentences works everywhere; a selection made by mouse or finger can be taken as well.

const characters = (text) => [...text].length; // as the server counts, not in UTF-16 units

function selected(passage) {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  if (!passage.contains(range.startContainer) || !passage.contains(range.endContainer)) return null;
  const before = range.cloneRange();
  before.selectNodeContents(passage);
  before.setEnd(range.startContainer, range.startOffset);
  const start = characters(before.toString());
  const words = range.toString();
  return words.trim() ? { at: `${start}-${start + characters(words)}`, words } : null;
}

export function put(select, at, passage) {
  if (at && ![...select.options].some((o) => o.value === at)) {
    const [start, end] = at.split("-").map(Number);
    const words = [...passage.textContent].slice(start, end).join("");
    select.append(new Option(`“${words.length > 60 ? `${words.slice(0, 57)}…` : words}”`, at));
  }
  select.value = at;
}

export function span(select, passage) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = select.dataset.use;
  let last = null; // pressing the button may end the selection first
  document.addEventListener("selectionchange", () => { last = selected(passage) || last; });
  button.addEventListener("click", () => {
    const now = selected(passage) || last;
    if (!now) return;
    put(select, now.at, passage);
    select.dispatchEvent(new Event("change", { bubbles: true }));
  });
  select.after(button);
}
