"use strict";
// Sorts, folds and filters what is in the page already; it makes no HTML.
const table = document.getElementById("topics");
const bodies = [...table.tBodies];
const value = (row, column, isText) => {
  const text = row.cells[column].dataset.v;
  return isText ? text : Number(text);
};
const compared = (column, isText, sign) => (one, other) => {
  const a = value(one, column, isText), b = value(other, column, isText);
  return sign * (isText ? a.localeCompare(b) : a - b);
};

const heads = [...table.tHead.rows[0].cells];
heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
  const isText = column === 0;
  const was = head.getAttribute("aria-sort");
  const sign = was === (isText ? "ascending" : "descending") ? -1 : 1;
  const ascends = (isText ? 1 : -1) * sign;
  for (const each of heads) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", ascends > 0 ? "ascending" : "descending");
  bodies.sort((one, other) => compared(column, isText, ascends)(one.rows[0], other.rows[0]));
  for (const body of bodies) {
    const [, ...logs] = body.rows;
    // A partition's place among its topic's is a number, also in the column of names.
    body.append(...logs.sort(compared(column, false, ascends)));
  }
  table.append(...bodies);
}));

const markFolds = () => {
  for (const body of bodies) {
    body.querySelector(".fold").setAttribute("aria-expanded", !body.classList.contains("folded"));
  }
};
table.addEventListener("click", (event) => {
  const row = event.target.closest("tr.topic");
  if (row) row.parentElement.classList.toggle("folded");
  markFolds();
});
const foldAll = (isFolded) => {
  for (const body of bodies) body.classList.toggle("folded", isFolded);
  markFolds();
};
document.getElementById("fold").addEventListener("click", () => foldAll(true));
document.getElementById("unfold").addEventListener("click", () => foldAll(false));

const search = document.getElementById("filter");
const lagging = document.getElementById("lagging");
const lagColumns = heads.flatMap((head, column) => (head.classList.contains("lag") ? [column] : []));
const filter = () => {
  const wanted = search.value.toLowerCase();
  let shown = 0;
  for (const body of bodies) {
    const [row] = body.rows;
    const isNamed = row.cells[0].dataset.v.toLowerCase().includes(wanted);
    const lags = lagColumns.some((column) => value(row, column, false) > 0);
    body.hidden = !(isNamed && (lags || !lagging?.checked));
    shown += !body.hidden;
  }
  document.getElementById("shown").textContent = shown < bodies.length ? `${shown} of ${bodies.length} topics` : "";
};
search.addEventListener("input", filter);
lagging?.addEventListener("change", filter);
filter();
markFolds();
