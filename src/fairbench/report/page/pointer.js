// Values: of all arms at the pointer, or one after the other by the arrow keys; a drag shows a part of a panel.

const FAR = 24;
const MOST_LINES = 14;
const MOST_ON_A_PHONE = 6;

// The position in the SVG of a value as the panel is drawn now.
function position(it, [x, y, arm]) {
  const row = it.old.y.kind === "rows" && it.gone && it.now !== it.old ? rowOf(it, y) : y;
  return [it.now.x.at(x * (it.seconds ? it.data.seconds[arm] : 1)), it.now.y.at(row)];
}

// What is said of a value; where x is a time, with the time instead of the step.
function told({ seconds, data }, [x, , arm, text]) {
  return seconds ? text.replace(`, step ${x}:`, `, ${secondsOf(data, x, arm)} s:`) : text;
}

function secondsOf(data, x, arm) {
  return Number((x * data.seconds[arm]).toPrecision(4));
}

function visible(it) {
  const values = it.data.points.map((point) => ({ arm: point[2], text: told(it, point), at: position(it, point) }));
  const lost = it.data.lost.map(([x, y, arm, text]) => ({ arm, text, at: [it.now.x.at(x), y] }));
  const places = values.concat(lost).map((value, index) => ({ ...value, index }));
  return places.filter(({ arm, at }) => shows(it, arm) && it.now.x.inside(at[0]) && it.now.y.inside(at[1]));
}

// The values nearest to a position: of rows the nearest one, otherwise of each arm the nearest along x, best first.
function valuesAt(it, [x, y]) {
  const found = visible(it);
  const rows = it.old.y.kind === "rows";
  const far = ({ at }) => (rows ? Math.hypot(at[0] - x, at[1] - y) : Math.abs(at[0] - x));
  const nearest = found.reduce((best, value) => (!best || far(value) < far(best) ? value : best), null);
  if (!nearest || far(nearest) > FAR) return [];
  if (rows) return [nearest];
  const of = new Map();
  for (const value of found) {
    const best = of.get(value.arm);
    const away = ({ at }) => Math.abs(at[0] - nearest.at[0]) + Math.abs(at[1] - y) / 1e4;
    if (away(value) <= FAR && (!best || away(value) < away(best))) of.set(value.arm, value);
  }
  const up = it.data.best === "low" ? -1 : 1;
  return Array.from(of.values()).sort((a, b) => up * (a.at[1] - b.at[1]));
}

function explore(panel) {
  const it = drawing(panel);
  const { svg } = it;
  const tip = document.createElement("div");
  const marks = drawn("g", { class: "again marks" });
  let [at, fixed, from] = [-1, false, null];
  tip.className = "tip";
  tip.setAttribute("aria-live", "polite"); // present from the start, or a screen reader misses its first text
  panel.append(tip);

  // The browser would show the title over the values.
  svg.setAttribute("aria-label", svg.querySelector("title").textContent);
  svg.setAttribute("aria-describedby", svg.querySelector("desc").id);
  svg.removeAttribute("aria-labelledby");
  svg.querySelector("title").remove();
  svg.setAttribute("tabindex", "0");

  function show(values) {
    marks.remove();
    tip.replaceChildren();
    if (values.length === 0) return;
    const lines = values.slice(0, panel.clientWidth < 480 ? MOST_ON_A_PHONE : MOST_LINES).map(({ arm, text }) => {
      const line = document.createElement("div");
      line.append(swatch(arm), text);
      return line;
    });
    const more = values.length - lines.length;
    tip.append(...lines, ...(more > 0 ? [`and ${more} more`] : []));
    marks.replaceChildren(...values.map(({ at: [cx, cy] }) => drawn("circle", { class: "dot", cx, cy, r: 5 })));
    svg.append(marks);
    put(values);
  }

  // A single value is shown above it, or below where the panel ends; several to the right, where there is more space.
  function put(values) {
    const box = svg.viewBox.baseVal;
    const scale = panel.clientWidth / box.width;
    const [x, y] = [(values[0].at[0] - box.x) * scale, (values[0].at[1] - box.y) * scale];
    const single = values.length === 1;
    const wanted = single ? x - tip.offsetWidth / 2 : x > panel.clientWidth / 2 ? x - tip.offsetWidth - 12 : x + 12;
    tip.style.left = `${Math.max(0, Math.min(panel.clientWidth - tip.offsetWidth, wanted))}px`;
    const above = y - tip.offsetHeight - 12;
    tip.style.top = `${single ? (above < 0 ? y + 12 : above) : (it.now.y.end - box.y) * scale}px`;
  }

  function pointed(event) {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [x, y];
  }

  function hide() {
    [at, fixed] = [-1, false];
    show([]);
  }

  it.hide = hide;

  function walk(key) {
    const shown = visible(it);
    const along = { ArrowRight: 1, ArrowLeft: -1 }[key];
    const present = shown.findIndex(({ index }) => index === at);
    if (along) return shown.at((present + (present < 0 && along < 0 ? 0 : along)) % shown.length);
    const arms = Array.from(new Set(shown.map(({ arm }) => arm)));
    const next = arms.at((arms.indexOf(shown[present]?.arm) + (key === "ArrowDown" ? 1 : -1)) % arms.length);
    return shown.find(({ arm }) => arm === next);
  }

  const frame = drawn("rect", { class: "frame" });

  function drag(event) {
    const to = pointed(event);
    const box = { x: Math.min(from[0], to[0]), y: Math.min(from[1], to[1]) };
    const size = { width: Math.abs(to[0] - from[0]), height: Math.abs(to[1] - from[1]) };
    for (const [name, value] of Object.entries({ ...box, ...size })) frame.setAttribute(name, value);
    svg.append(frame);
    return { ...box, ...size };
  }

  svg.addEventListener("pointermove", (event) => {
    if (from) drag(event);
    else if (!fixed) show(valuesAt(it, pointed(event)));
  });
  svg.addEventListener("pointerdown", (event) => {
    const start = pointed(event);
    fixed = false;
    show(valuesAt(it, start));
    if (!it.now.x.inside(start[0]) || !it.now.y.inside(start[1])) return;
    from = start;
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointerup", (event) => {
    const { x, y, width, height } = from ? drag(event) : { width: 0, height: 0 };
    from = null;
    frame.remove();
    if (width > 8 && height > 8) {
      hide();
      zoom(it, [it.now.x.value(x), it.now.x.value(x + width), it.now.y.value(y + height), it.now.y.value(y)]);
    } else fixed = tip.hasChildNodes();
  });
  svg.addEventListener("pointercancel", () => {
    from = null;
    frame.remove();
  });
  document.addEventListener("pointerdown", ({ target }) => panel.contains(target) || hide());
  svg.addEventListener("dblclick", () => zoom(it, null));
  svg.addEventListener("pointerleave", () => fixed || hide());
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    if (event.key === "0") zoom(it, null);
    if (event.key === "+" || event.key === "-") zoomAround(it, at, event.key === "+" ? 0.5 : 2);
    if (!event.key.startsWith("Arrow") || visible(it).length === 0) return;
    event.preventDefault();
    const value = walk(event.key);
    at = value.index;
    show([value]);
  });
}

// Keep the limits of a panel, or none, in the address.
function zoom({ panel, name, number }, limits) {
  const others = chosen(`${name}.zoom`).split(";").filter((text) => text && Number(text.split(",")[0]) !== number);
  const own = limits ? [[number, ...limits.map((value) => Number(value.toPrecision(6)))].join(",")] : [];
  choose(`${name}.zoom`, [...others, ...own].join(";"));
  shownTools.forEach((show) => show());
  redraw(panel);
}

// The part of a panel around a value, or its middle, a number of times as large as now.
function zoomAround(it, index, factor) {
  const middle = [(it.now.x.start + it.now.x.end) / 2, (it.now.y.start + it.now.y.end) / 2];
  const center = visible(it).find((value) => value.index === index)?.at ?? middle;
  const ends = ["x", "y"].flatMap((name, i) => [it.now[name].start, it.now[name].end].map((end) => it.now[name].value(center[i] + (end - center[i]) * factor)));
  zoom(it, ends);
}
