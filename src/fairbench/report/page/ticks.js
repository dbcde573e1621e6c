// Ticks and labels at the ends of lines, of a panel that is drawn again.

const SVG = switches[0].querySelector("svg").namespaceURI;
const LABEL_HEIGHT = 13;
const MOST_LABELS = 9;
const DIGIT_WIDTH = 5;

function drawn(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  element.textContent = text;
  return element;
}

function drawTicks(it, name, plain) {
  const group = it.svg.querySelector(`[data-axis="${name}"]`);
  const label = group?.querySelector(":scope > g:not(.tick, .again) text");
  const old = Array.from(group?.querySelectorAll(":scope > .tick:not(.again)") ?? []);
  for (const tick of old) tick.classList.toggle("off", !plain);
  if (label) {
    it[`${name}Label`] ??= label.textContent;
    const text = it[`${name}Label`].replace(/,? ?\bin\s1e.*$/, "");
    label.textContent = plain ? it[`${name}Label`] : it.seconds && name === "x" ? "training time, seconds" : text;
  }
  if (name === "y") for (const text of group?.querySelectorAll(":scope > g:not(.tick) text") ?? []) text.removeAttribute("dy");
  if (plain || old.length === 0) return;
  const now = it.now[name];
  const values = ticks(now, Math.abs(now.end - now.start) / (name === "x" ? 42 : 28));
  const texts = written(values, now.kind);
  const longest = (names) => Math.max(...names.map((text) => text.length));
  const more = (longest(texts) - longest(old.map((tick) => tick.textContent.trim()))) * DIGIT_WIDTH;
  if (name === "y" && more > 0) for (const text of group.querySelectorAll(":scope > g:not(.tick) text")) text.setAttribute("dy", -more);
  values.forEach((value, i) => group.append(movedTick(old[0], name, now.at(value), texts[i])));
}

// A tick as the first one of matplotlib, elsewhere.
function movedTick(old, name, to, text) {
  const tick = old.cloneNode(true);
  const shape = tick.querySelector("use");
  const change = to - Number(shape.getAttribute(name));
  tick.classList.remove("off");
  tick.classList.add("again");
  for (const element of tick.querySelectorAll("use, text")) element.setAttribute(name, Number(element.getAttribute(name)) + change);
  for (const path of tick.querySelectorAll("path")) {
    const moved = (_, x, y) => (name === "x" ? `${to} ${y}` : `${x} ${to}`);
    path.setAttribute("d", path.getAttribute("d").replace(PAIR, moved));
  }
  tick.querySelector("text").removeAttribute("transform");
  tick.querySelector("text").textContent = text;
  return tick;
}

// Heights, in rising order, moved as little as needed so that none overlap and all lie between two ends.
function separated(heights, gap, low, high) {
  const inside = (center, size) => [Math.min(Math.max(center, low + (size * gap) / 2), high - (size * gap) / 2), size];
  const clusters = [];
  for (const height of heights) {
    clusters.push(inside(height, 1));
    for (let last = clusters.length - 1; last > 0; last--) {
      const [[below, n], [above, m]] = clusters.slice(-2);
      if (above - below >= (gap * (n + m)) / 2) break;
      clusters.splice(-2, 2, inside((below * n + above * m) / (n + m), n + m));
    }
  }
  return clusters.flatMap(([center, size]) => Array.from({ length: size }, (_, i) => center + (i - (size - 1) / 2) * gap));
}

// Where the label of an arm begins: the end of its line, or the last of its values that lies in the panel.
function endOf(it, arm) {
  const inside = ([x, y]) => it.now.x.inside(x) && it.now.y.inside(y);
  it.ends ??= new Map(partsOf(it).filter(({ kind, given }) => kind === "end" && given.d).map((part) => [part.arm, part]));
  const own = it.ends.get(arm);
  const end = own && place(it, own, pairs(own)[0]);
  if (end && inside(end)) return end;
  const last = it.data.points.filter(([, , of]) => of === arm).map((point) => position(it, point)).filter(inside);
  return last.reduce((best, at) => (!best || at[0] >= best[0] ? at : best), null);
}

function drawEnds(it) {
  const ends = partsOf(it).filter(({ kind, element }) => kind === "end" && element.localName === "text");
  if (ends.length === 0) return;
  const texts = new Map(ends.map(({ arm, element }) => [arm, element.textContent]));
  const arms = Array.from(new Set(it.data.points.map(([, , arm]) => arm))).filter((arm) => shows(it, arm));
  const found = arms.map((arm) => [arm, endOf(it, arm)]).filter(([, end]) => end).sort(([, a], [, b]) => a[1] - b[1]);
  const half = Math.floor(MOST_LABELS / 2);
  const shown = found.filter(([arm], i) => found.length <= MOST_LABELS || arm === 0 || i < half || i >= found.length - half);
  const heights = separated(shown.map(([, end]) => end[1]), LABEL_HEIGHT, it.now.y.end, it.now.y.start);
  const group = drawn("g", { class: "again" });
  shown.forEach(([arm, end], i) => group.append(drawnEnd(it, arm, end, heights[i], texts.get(arm))));
  it.svg.append(group);
}

function drawnEnd({ now }, arm, [x, y], height, text) {
  const { label, color } = switches[arm].dataset;
  const right = now.x.end + 0.05 * (now.x.end - now.x.start);
  const [line, marker] = switches[arm].querySelectorAll("path");
  const group = drawn("g", { "data-arm": arm });
  const dash = line.getAttribute("stroke-dasharray")?.split(" ").map((part) => part / 2).join(" ") ?? "none";
  const name = { x: right + 6, y: height + 3.6, "font-size": "10px", "font-weight": 700, fill: color };
  const shape = drawn("path", { d: marker.getAttribute("d"), fill: color, transform: `translate(${right - 10} ${height}) scale(.5)` });
  const leader = { d: `M ${x} ${y} L ${right} ${height}`, fill: "none", stroke: color, "stroke-width": 0.8, "stroke-dasharray": dash };
  group.append(drawn("path", leader), shape, drawn("text", name, text ?? label));
  return group;
}

// The single seeds of each arm as thin lines.
function drawSeeds(it) {
  const clip = it.svg.querySelector("[clip-path]").getAttribute("clip-path");
  const group = drawn("g", { class: "again", "clip-path": clip });
  for (const [arm, seeds] of Object.entries(it.data.seeds)) {
    if (!shows(it, Number(arm))) continue;
    const own = drawn("g", { "data-arm": arm });
    for (const [steps, values] of seeds) {
      const at = steps.map((step, i) => position(it, [step, values[i], arm]).map((place) => Math.max(-EXTENT, Math.min(EXTENT, place)).toFixed(1)));
      const line = { d: `M ${at.map((xy) => xy.join(" ")).join(" L ")}`, stroke: switches[arm].dataset.color, "stroke-width": 0.7, "stroke-opacity": 0.6, fill: "none" };
      if (at.length) own.append(drawn("path", line));
    }
    group.append(own);
  }
  it.svg.append(group);
}
