// Tables: a click on a column's title sorts by it, a second click in reverse; missing values come last.

const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b);
}

function key(row, column, numeric) {
  const cell = row.cells[column];
  return numeric ? ("value" in cell.dataset ? Number(cell.dataset.value) : null) : cell.textContent;
}

function sort(table, column, numeric, direction) {
  const keyed = Array.from(table.tBodies[0].rows, (row) => [key(row, column, numeric), row]);
  const known = keyed.filter(([value]) => value !== null).sort(([a], [b]) => direction * compare(a, b));
  const unknown = keyed.filter(([value]) => value === null);
  table.tBodies[0].append(...known.concat(unknown).map(([, row]) => row));
  table.classList.add("sorted");
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sort(table, column, head.classList.contains("n"), descending ? -1 : 1);
    });
  });
}
