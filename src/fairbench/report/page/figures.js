// Figures: a panel is drawn again, from its own elements, when a reader chooses other axes, a part of it, or fewer arms.

const PAIR = /(-?[\d.]+(?:e-\d+)?) (-?[\d.]+(?:e-\d+)?)/g;
const EXTENT = 1e5; // beyond every panel, so that a value at minus infinity stays a number
const drawings = new Map();
const stale = new Set();

function drawing(panel) {
  if (!drawings.has(panel)) {
    const svg = panel.querySelector("svg");
    const data = JSON.parse(panel.querySelector("script").textContent);
    const figure = panel.closest("figure");
    const old = { x: axis(data.x), y: axis(data.y) };
    const number = Array.from(figure.querySelectorAll(".panel")).indexOf(panel);
    drawings.set(panel, { panel, svg, data, number, name: figure.id.slice("figure-".length), old, now: old, seconds: false });
  }
  return drawings.get(panel);
}

function armsOf(figure) {
  const panels = Array.from(figure.querySelectorAll(".panel"), drawing);
  return new Set(panels.flatMap(({ data }) => data.points.concat(data.lost).map(([, , arm]) => arm)));
}

// What has to be moved: elements of arms, and lines and areas that all arms share.
function partsOf(it) {
  it.parts ??= Array.from(it.svg.querySelectorAll("[data-arm] :is(path, use, text), g > path[clip-path]"))
    .filter((element) => !element.closest(".tick, defs"))
    .map((element) => {
      const group = element.closest("[data-arm]");
      const names = ["d", "x", "y", "transform", "display"];
      const given = Object.fromEntries(names.map((name) => [name, element.getAttribute(name)]));
      return { element, given, arm: group ? Number(group.dataset.arm) : null, kind: group?.dataset.kind };
    });
  return it.parts;
}

function pairs(part) {
  const { d, x, y } = part.given;
  return d ? Array.from(d.matchAll(PAIR), ([, px, py]) => [Number(px), Number(py)]) : [[Number(x), Number(y)]];
}

// The choices of a reader for a panel.
function wishes({ name, number, data, old }) {
  const x = chosen(`${name}.x`).split(" ");
  const zooms = chosen(`${name}.zoom`).split(";").map((text) => text.split(",").map(Number));
  const zoom = zooms.find(([panel]) => chosen(`${name}.zoom`) && panel === number);
  const seconds = x.includes("seconds");
  const kinds = { x: x.includes("log") ? "log" : old.x.kind, y: chosen(`${name}.y`) || old.y.kind };
  const seeds = chosen(`${name}.seeds`) === "shown";
  const hides = data.points.some(([, , arm]) => off.has(arm) || (seconds && !(arm in data.seconds)));
  const plain = !seeds && !hides && !seconds && !zoom && kinds.x === old.x.kind && kinds.y === old.y.kind;
  return { seconds, kinds, zoom: zoom?.slice(1), hides, seeds, plain };
}

function shows({ data, seconds }, arm) {
  return !off.has(arm) && (!seconds || arm in data.seconds);
}

// Values of what is shown, in the present unit of x.
function extents(it) {
  const found = { x: [], y: [] };
  for (const part of partsOf(it)) {
    if (part.arm === null || part.kind === "end" || !shows(it, part.arm)) continue;
    const factor = it.seconds ? it.data.seconds[part.arm] : 1;
    for (const [px, py] of pairs(part)) {
      found.x.push(it.old.x.value(px) * factor);
      if (part.kind !== "edge") found.y.push(it.old.y.value(py));
    }
  }
  return found;
}

// Axes of rows have 0; those of bars begin there, and leave as much space for text after the longest as before.
function rowLimits(it) {
  const { low, high, scale, value } = it.old.x;
  if (low === 0) {
    const longest = (points) => points.reduce((most, [x]) => Math.max(most, x), 0);
    return [0, (high * longest(it.data.points.filter(([, , arm]) => !off.has(arm)))) / longest(it.data.points) || high];
  }
  const shown = partsOf(it).filter(({ arm, element }) => arm !== null && !off.has(arm) && element.localName !== "text");
  const values = shown.flatMap(pairs).map(([px]) => value(px));
  const found = fit([0, ...values], scale);
  return low < high ? found : found.reverse();
}

function axesFor(it, { kinds, zoom, hides, seconds }) {
  const { old } = it;
  if (zoom) return { x: limited(old.x, zoom.slice(0, 2), kinds.x), y: limited(old.y, zoom.slice(2), kinds.y) };
  if (old.y.kind === "rows") return { x: limited(old.x, rowLimits(it)), y: old.y };
  const found = extents(it);
  const limits = (name) => {
    const same = !hides && kinds[name] === old[name].kind && !(seconds && name === "x");
    return same || found[name].length === 0 ? [old[name].low, old[name].high] : fit(found[name], kinds[name] === "log" ? LOG : LINEAR);
  };
  return { x: limited(old.x, limits("x"), kinds.x), y: limited(old.y, limits("y"), kinds.y) };
}

// The row of a value once the rows of hidden arms are gone.
function rowOf({ data, gone }, value) {
  return value - gone.filter((row) => row < Math.round(value)).length;
}

function place(it, part, [px, py]) {
  const { old, now } = it;
  const factor = it.seconds && part.arm !== null ? it.data.seconds[part.arm] : 1;
  const value = old.y.value(py);
  const atEdge = part.arm === null && [old.y.start, old.y.end].some((end) => Math.abs(end - py) < 0.1);
  const x = now.x.at(old.x.value(px) * factor);
  const y = part.kind === "edge" || atEdge ? py : now.y.at(old.y.kind === "rows" ? rowOf(it, value) : value);
  return [x, y].map((at) => Number(Math.max(-EXTENT, Math.min(EXTENT, at)).toFixed(2)));
}

function movePart(it, part) {
  const { element, given } = part;
  if (part.kind === "end") element.setAttribute("display", "none");
  else if (given.d) element.setAttribute("d", given.d.replace(PAIR, (_, px, py) => place(it, part, [Number(px), Number(py)]).join(" ")));
  else if (element.localName === "text") moveText(it, part);
  else {
    const [x, y] = place(it, part, pairs(part)[0]);
    element.setAttribute("x", x);
    element.setAttribute("y", y);
    if (part.kind === "edge") element.setAttribute("display", it.now.x.inside(x) ? "inline" : "none");
  }
}

// Text in rows keeps its distance from the value that it belongs to, and names stay at the left.
function moveText(it, { element, given }) {
  const { old, now } = it;
  const [x, y] = [Number(given.x), Number(given.y)];
  const row = Math.round(old.y.value(y));
  const height = now.y.at(rowOf(it, row));
  const end = now.x.at(old.x.value(x - 6));
  const named = x < old.x.start;
  element.setAttribute("x", named ? x : end + 6);
  element.setAttribute("y", y + height - old.y.at(row));
  element.setAttribute("display", now.y.inside(height) && (named || now.x.inside(end)) ? "inline" : "none");
}

function restore(it) {
  for (const { element, given } of it.parts ?? []) {
    for (const name in given) given[name] === null ? element.removeAttribute(name) : element.setAttribute(name, given[name]);
  }
  it.now = it.old;
}

function redraw(panel) {
  const it = drawing(panel);
  const wish = wishes(it);
  stale.delete(panel);
  it.hide?.();
  it.seconds = wish.seconds;
  it.svg.querySelectorAll(".again").forEach((group) => group.remove());
  for (const group of it.svg.querySelectorAll("[data-arm]")) group.classList.toggle("off", !shows(it, Number(group.dataset.arm)));
  if (wish.plain) restore(it);
  else {
    it.gone = Array.from(new Set(it.data.points.filter(([, , arm]) => off.has(arm)).map(([, row]) => row)));
    it.now = axesFor(it, wish);
    for (const part of partsOf(it)) movePart(it, part);
  }
  drawTicks(it, "x", wish.plain);
  drawTicks(it, "y", wish.plain);
  if (wish.seeds) drawSeeds(it);
  if (!wish.plain) drawEnds(it);
}

const nearView = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && stale.has(target)) redraw(target);
    }
  },
  { rootMargin: "50%" },
);

function redrawAll() {
  for (const panel of document.querySelectorAll(".panel")) {
    const { top, bottom } = panel.getBoundingClientRect();
    if (panel.offsetParent && bottom > -innerHeight / 2 && top < 1.5 * innerHeight) redraw(panel);
    else stale.add(panel);
  }
}

addEventListener("beforeprint", () => stale.forEach(redraw));
