// Values of a panel: of all arms at the pointer, one after the other by the arrow keys, and as a CSV.

const FAR = 32; // pixels
const MOST_LINES = 14;
const MOST_ON_A_PHONE = 6;

function dataOf(panel) {
  return JSON.parse(panel.querySelector("script").textContent);
}

function put(element, pixels) {
  for (const side in pixels) element.style[side] = `${pixels[side]}px`;
  return element;
}

// The values that are seen, each with its place in the panel in pixels.
function visible({ svg, points }) {
  const { x, y, width, height } = svg.viewBox.baseVal;
  const [right, bottom] = [svg.clientWidth, svg.clientHeight];
  return points
    .map(([px, py, arm, text], index) => {
      return { index, arm, text, left: ((px - x) / width) * right, top: ((py - y) / height) * bottom };
    })
    .filter(({ arm, left, top }) => !off.has(arm) && left >= 0 && left <= right && top >= 0 && top <= bottom);
}

// The values nearest to a place: of rows the nearest one, otherwise of each arm the nearest along x, best first.
function valuesAt(it, [x, y]) {
  const away = (from) => ({ left, top }) => Math.abs(left - from) + Math.abs(top - y) * (it.rows ? 1 : 1e-4);
  const nearer = (far) => (a, b) => (a && far(a) <= far(b) ? a : b);
  const values = visible(it);
  const first = values.reduce(nearer(away(x)), null);
  if (!first || away(x)(first) > FAR) return [];
  if (it.rows) return [first];
  const far = away(first.left);
  const ofArm = new Map();
  for (const value of values) if (far(value) <= FAR) ofArm.set(value.arm, nearer(far)(ofArm.get(value.arm), value));
  const up = it.best === "low" ? -1 : 1;
  return Array.from(ofArm.values()).sort((a, b) => up * (a.top - b.top));
}

// Show values with a ring at each. One value is above its ring, or below it at the top; several are next to theirs.
function tell({ svg, tip, rings }, values) {
  rings.replaceChildren(...values.map(({ left, top }) => put(make("i", {}), { left, top })));
  tip.replaceChildren();
  if (values.length === 0) return;
  const [width, height] = [svg.clientWidth, svg.clientHeight];
  for (const { arm, text } of values.slice(0, width < 480 ? MOST_ON_A_PHONE : MOST_LINES)) {
    const line = make("div", {});
    line.append(swatch(arm), text);
    tip.append(line);
  }
  const more = values.length - tip.childElementCount;
  if (more > 0) tip.append(`and ${more} more`);
  const [left, top] = [values[0].left, Math.min(...values.map((value) => value.top))];
  const single = values.length === 1;
  const [above, across] = [top - tip.offsetHeight - 12, left > width / 2 ? left - tip.offsetWidth - 12 : left + 12];
  put(tip, {
    left: Math.max(0, Math.min(width - tip.offsetWidth, single ? left - tip.offsetWidth / 2 : across)),
    top: single ? (above < 0 ? top + 12 : above) : Math.max(0, Math.min(height - tip.offsetHeight, top)),
  });
}

function hide(it) {
  it.index = -1;
  it.fixed = false;
  tell(it, []);
}

// The value after the present one: by left and right in the order of all, by up and down the first of the next arm.
function next(it, arrow) {
  const values = visible(it);
  const along = { ArrowRight: 1, ArrowLeft: -1 }[arrow];
  const present = values.findIndex(({ index }) => index === it.index);
  if (along) return values.at((present + (present < 0 && along < 0 ? 0 : along)) % values.length);
  const shown = Array.from(new Set(values.map(({ arm }) => arm)));
  const arm = shown.at((shown.indexOf(values[present]?.arm) + (arrow === "ArrowDown" ? 1 : -1)) % shown.length);
  return values.find((value) => value.arm === arm);
}

// A line for each value of the arms that are shown; a column that only some panels have is empty in the others.
function valuesCsv(figure) {
  const rows = Array.from(figure.querySelectorAll(".panel"), dataOf).flatMap(({ arena, columns, points }) =>
    points.filter(([, , arm]) => !off.has(arm)).map(([, , arm, text, ...numbers]) => ({
      panel: arena,
      optimizer: switches[arm].textContent,
      ...Object.fromEntries(columns.map((name, i) => [name, numbers[i]])),
      text,
    })),
  );
  const names = Array.from(new Set(rows.flatMap(Object.keys))).filter((name) => name !== "text").concat("text");
  return csv([names, ...rows.map((row) => names.map((name) => row[name] ?? ""))]);
}
