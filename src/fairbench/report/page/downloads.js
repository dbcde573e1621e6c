// What stands at each figure: its axes, and downloads made from what is in the page.

function saveAs(name, content) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: "text/plain" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

// The panels as they are drawn now, in the light colors, in one SVG.
function picture(figure) {
  const panels = Array.from(figure.querySelectorAll(".panel"));
  const boxes = panels.map((panel) => panel.querySelector("svg").viewBox.baseVal);
  const width = Math.max(...boxes.map((box) => box.x + box.width));
  const height = Math.max(...boxes.map((box) => box.y + box.height));
  const whole = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "Arial, Helvetica, sans-serif" });
  whole.append(drawn("rect", { width, height, fill: "#ffffff" }));
  panels.forEach((panel, i) => {
    if (stale.has(panel)) redraw(panel);
    const svg = panel.querySelector("svg").cloneNode(true);
    for (const element of svg.querySelectorAll(".off, .marks")) element.remove();
    for (const name of ["x", "y", "width", "height"]) svg.setAttribute(name, boxes[i][name]);
    whole.append(svg);
  });
  return { text: new XMLSerializer().serializeToString(whole), width, height };
}

async function pixels(figure) {
  const { text, width, height } = picture(figure);
  const image = new Image();
  const canvas = make("canvas", { width: 2 * width, height: 2 * height });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const SECONDS = "training time, seconds";

// The values of a panel that are drawn, each by the names of its columns.
function valuesOf(it) {
  const { points, lost, columns, values, arena } = it.data;
  const found = points.map((point, i) => [point, values[i] ?? point]).concat(lost.map((point) => [point, point.slice(0, 1)]));
  return found.filter(([[, , arm]]) => shows(it, arm)).map(([point, numbers]) => ({
    panel: arena,
    optimizer: switches[point[2]].textContent,
    ...Object.fromEntries(columns.map((name, i) => [name, numbers[i] ?? ""])),
    ...(it.seconds ? { [SECONDS]: secondsOf(it.data, point[0], point[2]) } : {}),
    text: told(it, point),
  }));
}

// A line for each value; a column that only some panels have is empty in the others.
function values(figure) {
  const quoted = (cell) => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell);
  const rows = Array.from(figure.querySelectorAll(".panel"), drawing).flatMap(valuesOf);
  const names = Array.from(new Set(rows.flatMap(Object.keys))).filter((name) => name !== "text").concat("text");
  return [names, ...rows.map((row) => names.map((name) => row[name] ?? ""))].map((row) => `${row.map(quoted).join(",")}\n`).join("");
}

const SAVED = { SVG: (figure) => picture(figure).text, PNG: pixels, CSV: values };

function box(text, checked, change) {
  const input = make("input", { type: "checkbox", checked });
  input.addEventListener("change", () => change(input.checked));
  const label = make("label", {});
  label.append(input, text);
  return { input, label };
}

function addTools(figure) {
  const name = figure.id.slice("figure-".length);
  const its = Array.from(figure.querySelectorAll(".panel"), drawing);
  const tools = make("p", { className: "tools" });
  const positive = (at) => its.every(({ data }) => data.points.every((point) => point[at] > 0));
  const boxes = {};
  const change = (key, words) => {
    choose(`${name}.${key}`, words.filter(Boolean).join(" "));
    if (key !== "seeds") choose(`${name}.zoom`, "");
    redrawAll();
    shownTools.forEach((show) => show());
  };
  const changeX = () => change("x", [boxes.log?.input.checked && "log", boxes.seconds?.input.checked && "seconds"]);
  if (its.some(({ data }) => Object.keys(data.seconds).length)) boxes.seconds = box("x in seconds of training", false, changeX);
  if (its.every(({ old }) => old.x.kind === "linear" && old.y.kind !== "rows") && positive(0)) boxes.log = box("log x", false, changeX);
  if (its.every(({ old }) => old.y.kind === "linear") && positive(1)) boxes.y = box("log y", false, (on) => change("y", [on && "log"]));
  if (its.some(({ data }) => Object.keys(data.seeds).length)) boxes.seeds = box("single seeds", false, (on) => change("seeds", [on && "shown"]));
  for (const { label } of Object.values(boxes)) tools.append(label);
  for (const kind in SAVED) {
    const button = make("button", { type: "button", textContent: kind, title: `Download this figure as ${kind}` });
    button.addEventListener("click", async () => saveAs(`${name}.${kind.toLowerCase()}`, await SAVED[kind](figure)));
    tools.append(button);
  }
  const link = make("a", { textContent: "Link", href: `#${figure.id}`, ariaLabel: `Link to ${name.replaceAll("_", " ")}` });
  for (const event of ["pointerenter", "focus"]) link.addEventListener(event, () => (link.href = address(figure.id)));
  const whole = make("button", { type: "button", textContent: "Whole axes", hidden: true });
  whole.addEventListener("click", () => change("zoom", []));
  tools.append(link, whole);
  figure.prepend(tools);
  const show = () => {
    const x = chosen(`${name}.x`).split(" ");
    for (const kind of ["log", "seconds"]) if (boxes[kind]) boxes[kind].input.checked = x.includes(kind);
    if (boxes.y) boxes.y.input.checked = chosen(`${name}.y`) === "log";
    if (boxes.seeds) boxes.seeds.input.checked = chosen(`${name}.seeds`) === "shown";
    whole.hidden = !chosen(`${name}.zoom`);
  };
  show();
  shownTools.push(show);
}

const shownTools = [];

for (const figure of document.querySelectorAll("figure")) whenOpened(figure, () => {
  addTools(figure);
  viewed.observe(figure);
  for (const panel of figure.querySelectorAll(".panel")) {
    explore(panel);
    nearView.observe(panel);
  }
});

follow(() => {
  const hidden = chosen("off").split(",").filter(Boolean).map(Number);
  off.clear();
  hidden.forEach((arm) => off.add(arm));
  showSwitches();
  shownTools.forEach((show) => show());
  if (state.choices.size) redrawAll();
});
