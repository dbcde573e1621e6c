// The bar above the page: search over all tables, folding, theme.

const bar = document.querySelector("search");
const find = document.getElementById("find");
const theme = document.getElementById("theme");
const dark = document.getElementById("dark");
const found = new Set();
const preferred = dark.media;

bar.hidden = false;

function counted(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

// A table with rows that match is opened until the search ends; the others are hidden.
function search() {
  const searching = words(chosen("find")).length > 0;
  let [rows, tables] = [0, 0];
  find.value = chosen("find");
  for (const place of places) {
    const fold = place.closest("details");
    const shown = searching ? prepared.get(place).rows.filter((row) => !row.hidden).length : 0;
    rows += shown;
    tables += shown > 0;
    (fold ?? place).hidden = searching && shown === 0;
    if (!fold) continue;
    if (shown && !fold.open) found.add(fold);
    if (shown) fold.open = true;
    else if (found.delete(fold)) fold.open = false;
  }
  bar.querySelector("output").value = searching ? `${counted(rows, "row")} in ${counted(tables, "table")}` : "";
}

find.addEventListener("input", () => {
  choose("find", find.value);
  places.forEach(show);
  search();
});
follow(search);

document.getElementById("folds").addEventListener("click", () => {
  const folds = Array.from(document.querySelectorAll("details"));
  const open = folds.some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
});

theme.addEventListener("change", () => {
  choose("theme", theme.value);
  paint();
});

function paint() {
  theme.value = chosen("theme");
  dark.media = { dark: "screen", light: "not all" }[theme.value] ?? preferred;
  document.documentElement.style.colorScheme = theme.value;
}

follow(paint);
