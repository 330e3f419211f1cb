// A number box becomes a slider. Its handle rests at a start value that is no answer; the first touch makes it one: a move,
// a tap on the handle where it rests, Enter or Space, or a number typed into the box, once the typing rests.

const TYPING_MS = 800;

export function slider(box, { untouched, answer }) {
  const number = box.querySelector("input[type=number]");
  const range = document.createElement("input");
  Object.assign(range, { type: "range", min: 0, max: 100, step: 1, id: `r-${number.id}` });
  range.setAttribute("aria-labelledby", `w-${number.id}`);
  range.autocomplete = "off";
  number.before(range);

  let given = "";
  function show(value) {
    given = value;
    const none = value === "";
    range.value = none ? box.dataset.start : value;
    range.classList.toggle("untouched", none);
    range.style.setProperty("--fill", `${range.value}%`);
    if (none) range.setAttribute("aria-valuetext", untouched);
    else range.removeAttribute("aria-valuetext");
    number.value = value;
  }
  function touch() {
    if (range.value === given) return;
    show(range.value);
    box.classList.remove("missing");
    answer(given);
  }

  range.addEventListener("input", () => {
    number.value = range.value;
    range.classList.remove("untouched");
    range.removeAttribute("aria-valuetext");
    range.style.setProperty("--fill", `${range.value}%`);
  });
  range.addEventListener("change", touch);
  range.addEventListener("click", touch); // a tap that moves nothing fires no change
  range.addEventListener("pointercancel", () => show(given)); // a finger that went on to scroll the page
  range.addEventListener("keydown", (e) => {
    if ((e.key === "Enter" && !e.ctrlKey) || e.key === " ") {
      e.preventDefault();
      touch();
    }
  });
  let resting = null; // the timer of a number that is being typed
  function typed() {
    clearTimeout(resting);
    const value = number.value.trim();
    const good = value === "" ? !number.validity.badInput : /^\d{1,3}$/.test(value) && Number(value) <= 100;
    if (good && value !== given) {
      show(value);
      box.classList.remove("missing");
      answer(value);
    }
    return good;
  }
  number.addEventListener("input", () => {
    clearTimeout(resting);
    resting = setTimeout(typed, TYPING_MS);
  });
  number.addEventListener("change", () => {
    if (typed()) return;
    show(given); // what was typed is no answer: the box is marked, and says what is one
    number.placeholder = "0–100";
    box.classList.add("missing");
  });
  show(number.value);
  return { field: box.dataset.field, show, typed };
}
