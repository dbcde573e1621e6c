// Figures: pointer and keys on each panel, a part of it by its view box, and what stands above each figure.

const SIZED = "use[x], text[x]:not([transform])"; // marks and text keep their size in a part that is stretched

function explore(panel) {
  const svg = panel.querySelector("svg");
  const tip = make("div", { className: "tip", ariaLive: "polite" }); // from the start, or a screen reader misses its first text
  const rings = make("div", { className: "rings" });
  const button = make("button", { type: "button", className: "whole", textContent: "Whole panel" });
  const whole = svg.getAttribute("viewBox").split(" ").map(Number);
  const it = { ...dataOf(panel), svg, tip, rings, button, whole, key: svg.querySelector("desc").id.replace(/-desc$/, ".part") };
  panel.append(tip, rings, button);
  describe(svg);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.style.aspectRatio = `${whole[2]} / ${whole[3]}`;
  button.addEventListener("click", () => showWhole(it));
  listen(it);
  follow(() => showPart(it));
}

// The browser would show the title over the values.
function describe(svg) {
  svg.setAttribute("aria-label", svg.querySelector("title").textContent);
  svg.setAttribute("aria-describedby", svg.querySelector("desc").id);
  svg.removeAttribute("aria-labelledby");
  svg.querySelector("title").remove();
  svg.setAttribute("tabindex", "0");
}

function showWhole(it) {
  choose(it.key, "");
  showPart(it);
}

function showPart(it) {
  const { svg, whole, button } = it;
  const wanted = chosen(it.key).split(",").map(Number);
  const part = wanted.length === 4 && wanted.every(Number.isFinite) && wanted[2] > 0 && wanted[3] > 0 ? wanted : whole;
  svg.setAttribute("viewBox", part.join(" "));
  svg.classList.toggle("part", part !== whole);
  for (const element of part === whole ? [] : svg.querySelectorAll(SIZED)) {
    element.style.transformOrigin = `${element.getAttribute("x")}px ${element.getAttribute("y")}px`;
  }
  svg.style.setProperty("--across", part[2] / whole[2]);
  svg.style.setProperty("--down", part[3] / whole[3]);
  button.hidden = part === whole;
  hide(it);
}

// Show a part, given in pixels of what is shown now; it does not reach beyond the panel.
function zoom(it, { left, top, width, height }) {
  const { svg, whole } = it;
  const now = svg.viewBox.baseVal;
  const [across, down] = [now.width / svg.clientWidth, now.height / svg.clientHeight];
  const size = [Math.min(whole[2], width * across), Math.min(whole[3], height * down)];
  const start = [now.x + left * across, now.y + top * down];
  const inside = start.map((at, i) => Math.max(whole[i], Math.min(whole[i] + whole[i + 2] - size[i], at)));
  const smaller = size[0] < whole[2] || size[1] < whole[3];
  choose(it.key, smaller ? [...inside, ...size].map((number) => Number(number.toFixed(2))).join(",") : "");
  showPart(it);
}

// A number of times as much as now; the present value, or the middle, stays where it is.
function zoomAround(it, factor) {
  const { clientWidth: width, clientHeight: height } = it.svg;
  const { index } = it;
  const find = () => visible(it).find((value) => value.index === index);
  const { left, top } = find() ?? { left: width / 2, top: height / 2 };
  zoom(it, { left: left * (1 - factor), top: top * (1 - factor), width: width * factor, height: height * factor });
  it.index = index;
  tell(it, [find()].filter(Boolean));
}

function listen(it) {
  const { svg, tip, rings } = it;
  const frame = make("div", { className: "frame" });
  let from = null;
  const pointed = ({ clientX, clientY }) => {
    const { left, top } = svg.getBoundingClientRect();
    return [clientX - left, clientY - top];
  };
  const framed = (event) => {
    const [[x, y], [toX, toY]] = [from, pointed(event)];
    return { left: Math.min(x, toX), top: Math.min(y, toY), width: Math.abs(x - toX), height: Math.abs(y - toY) };
  };
  const release = () => {
    from = null;
    frame.remove();
  };
  svg.addEventListener("pointermove", (event) => {
    if (from) svg.after(put(frame, framed(event)));
    else if (!it.fixed) tell(it, valuesAt(it, pointed(event)));
  });
  svg.addEventListener("pointerdown", (event) => {
    from = pointed(event);
    tell(it, valuesAt(it, from));
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointerup", (event) => {
    const part = from ? framed(event) : { width: 0 };
    release();
    if (part.width > 8 && part.height > 8) zoom(it, part);
    else it.fixed = tip.hasChildNodes();
  });
  svg.addEventListener("pointercancel", release);
  svg.addEventListener("dblclick", () => showWhole(it));
  svg.addEventListener("pointerleave", () => it.fixed || hide(it));
  svg.addEventListener("blur", () => hide(it));
  svg.addEventListener("keydown", (event) => pressed(it, event));
  document.addEventListener("pointerdown", ({ target }) => svg.contains(target) || hide(it));
}

function pressed(it, event) {
  if (event.key === "Escape") hide(it);
  if (event.key === "0") showWhole(it);
  if (event.key === "+" || event.key === "-") zoomAround(it, event.key === "+" ? 0.5 : 2);
  if (!event.key.startsWith("Arrow") || visible(it).length === 0) return;
  event.preventDefault();
  const value = next(it, event.key);
  it.index = value.index;
  tell(it, [value]);
}

for (const figure of document.querySelectorAll("figure")) whenOpened(figure, () => {
  const title = figure.id.slice("figure-".length);
  const tools = make("p", { className: "tools" });
  const link = make("a", { textContent: "Link", ariaLabel: `Link to ${title.replaceAll("_", " ")}` });
  keepView(link, figure.id);
  tools.append(download(title, "CSV", () => valuesCsv(figure)), link);
  figure.prepend(tools);
  viewed.observe(figure);
  figure.querySelectorAll(".panel").forEach(explore);
});
