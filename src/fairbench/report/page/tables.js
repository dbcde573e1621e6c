// Tables: each can be sorted, filtered and downloaded. A table is prepared when it is opened first.

const collator = new Intl.Collator("en", { numeric: true });
const SEVERITIES = ["fail", "warn", "note"];
const FEW = 8; // The most rows of a table that needs no filter.
const texts = new WeakMap();
const prepared = new Map();

function make(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

// Prepare a part of the page when a reader can see it: at once, or when its fold is opened first.
function whenOpened(part, prepare) {
  const fold = part.closest("details");
  if (!fold || fold.open) prepare(part);
  else fold.addEventListener("toggle", () => prepare(part), { once: true });
}

function words(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

// A row's text is read once, since a search reads all tables at each letter.
function matches(row, wanted) {
  if (wanted.length && !texts.has(row)) texts.set(row, row.textContent.toLowerCase());
  return wanted.every((word) => texts.get(row).includes(word));
}

// The number of a cell as text, which is its own text if that says it in full; empty for none.
function valueOf(cell) {
  return cell.dataset.value ?? (Number.isNaN(Number(cell.textContent)) ? "" : cell.textContent.trim());
}

function key(row, column, numeric) {
  const cell = row.cells[column];
  if (numeric || "value" in cell.dataset) return valueOf(cell) ? Number(valueOf(cell)) : null;
  const severity = SEVERITIES.indexOf(cell.textContent);
  return severity < 0 ? cell.textContent : severity;
}

function compare(a, b) {
  const [x, y] = [Number.parseFloat(a), Number.parseFloat(b)];
  return x < y || x > y ? x - y : collator.compare(a, b);
}

// The rows by a column, counted from 1, negative for descending; 0 is their first order. Missing values come last.
function ordered(rows, order, head) {
  if (!head) return rows;
  const keyed = rows.map((row) => [key(row, head.cellIndex, head.classList.contains("n")), row]);
  const known = keyed.filter(([value]) => value !== null).sort(([a], [b]) => order * compare(a, b));
  return known.concat(keyed.filter(([value]) => value === null)).map(([, row]) => row);
}

// Show the choices for a table: its order, its filter and the search over all tables.
function show(place) {
  const name = place.dataset.table;
  const order = Number(chosen(`${name}.order`));
  const wanted = words(`${chosen(`${name}.filter`)} ${chosen("find")}`);
  if (order || wanted.length) prepare(place);
  if (!prepared.has(place)) return;
  const { table, rows, field } = prepared.get(place);
  const heads = Array.from(table.tHead.rows[0].cells);
  const head = heads[Math.abs(order) - 1];
  for (const other of heads) other.removeAttribute("aria-sort");
  head?.setAttribute("aria-sort", order > 0 ? "ascending" : "descending");
  if (order || table.classList.contains("sorted")) table.tBodies[0].append(...ordered(rows, order, head));
  table.classList.toggle("sorted", Boolean(order));
  for (const row of rows) row.hidden = !matches(row, wanted);
  field.value = chosen(`${name}.filter`);
}

function prepare(place) {
  if (prepared.has(place)) return;
  const table = place.querySelector("table");
  const name = place.dataset.table;
  const field = make("input", { type: "search" });
  const label = make("label", { textContent: "Filter " });
  const rows = Array.from(table.tBodies[0].rows);
  label.hidden = rows.length <= FEW && !chosen(`${name}.filter`);
  prepared.set(place, { table, rows, field });
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = make("button", { type: "button" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { [column + 1]: -column - 1, [-column - 1]: "" }[chosen(`${name}.order`)];
      choose(`${name}.order`, next ?? column + 1);
      show(place);
    });
  });
  label.append(field);
  field.addEventListener("input", () => {
    choose(`${name}.filter`, field.value);
    show(place);
  });
  const downloads = [download(name, "CSV", () => rowsCsv(place)), download(name, "LaTeX", () => latex(name))];
  place.querySelector(".tools").prepend(label, ...downloads);
}

// Downloads, made from what is in the page.

function download(name, kind, content) {
  const suffix = { CSV: "csv", LaTeX: "tex" }[kind];
  const button = make("button", { type: "button", textContent: kind, title: `Download as ${kind}` });
  button.addEventListener("click", async () => {
    const url = URL.createObjectURL(new Blob([await content()], { type: "text/plain" }));
    make("a", { href: url, download: `${name}.${suffix}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  });
  return button;
}

function csv(rows) {
  const quoted = (cell) => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell);
  return rows.map((row) => `${row.map(quoted).join(",")}\n`).join("");
}

const NUMERAL = /\d[\d.]*(e[+−-]\d+)?/g;

// What a cell says, without its sign; the small text after it is in columns of its own.
function said(cell) {
  const copy = cell.cloneNode(true);
  for (const part of copy.querySelectorAll(":scope > small, button > small, [aria-hidden]")) part.remove();
  return copy.textContent.trim();
}

// Whether a text has words, signs or numbers that some numbers lack.
function saysMore(text, numbers) {
  const known = numbers.filter(Boolean).length;
  return /[^\s–+−±<,%[\]()]/.test(text.replace(NUMERAL, "")) || (text.match(NUMERAL) ?? []).length > known;
}

// A column as columns of a CSV: its number or text, the further numbers that it shows, and its text if that says more.
function columnsOf(head, cells) {
  const title = said(head);
  const further = (cell) => cell.dataset.more?.split(",") ?? [];
  const texts = cells.map(said);
  const more = further(head).map((name, i) => [`${title} ${name}`, ...cells.map((cell) => further(cell)[i] ?? "")]);
  if (!head.classList.contains("n")) return [[title, ...texts], ...more];
  const numbers = cells.map(valueOf);
  const tells = texts.some((text, i) => saysMore(text, [numbers[i], ...further(cells[i])]));
  return [[title, ...numbers], ...more, ...(tells ? [[`${title}, as shown`, ...texts]] : [])];
}

// The rows as shown, with numbers in full.
function rowsCsv(place) {
  const table = place.querySelector("table");
  const rows = Array.from(table.tBodies[0].rows).filter((row) => !row.hidden);
  const columns = Array.from(table.tHead.rows[0].cells, (head, i) => columnsOf(head, rows.map((row) => row.cells[i]))).flat();
  return csv(columns[0].map((_, i) => columns.map((column) => column[i])));
}

// The LaTeX of all tables is one packed JSON.
async function latex(name) {
  const packed = atob(document.getElementById("latex").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return (await new Response(stream).json())[name];
}

// Only a table that scrolls is a tab stop. A table that is prepared becomes wider, its scroller does not.
const scrolling = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scroller = target.closest(".scroll");
    const table = scroller.firstElementChild;
    const scrolls = scroller.scrollWidth > scroller.clientWidth || scroller.scrollHeight > scroller.clientHeight;
    const name = table.ariaLabel ?? document.getElementById(table.getAttribute("aria-labelledby")).textContent;
    const given = { tabindex: "0", role: "region", "aria-label": name };
    for (const key in given) scrolls ? scroller.setAttribute(key, given[key]) : scroller.removeAttribute(key);
    fade(scroller);
  }
});

// The sides at which a table continues: colored cells would cover a shadow behind them.
function fade(scroller) {
  const { scrollLeft, scrollTop, clientWidth, clientHeight, scrollWidth, scrollHeight } = scroller;
  scroller.classList.toggle("right", scrollWidth - clientWidth - scrollLeft > 1);
  scroller.classList.toggle("down", scrollHeight - clientHeight - scrollTop > 1);
}

const places = Array.from(document.querySelectorAll("[data-table]"));

for (const place of places) {
  keepView(place.querySelector(".link"), place.id);
  for (const part of place.querySelectorAll(".scroll, table")) scrolling.observe(part);
  place.querySelector(".scroll").addEventListener("scroll", ({ target }) => fade(target), { passive: true });
  whenOpened(place, prepare);
  follow(() => show(place));
}
