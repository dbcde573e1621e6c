// Figures: the choice of arms, in all figures together, and of axes.

const off = new Set();

for (const controls of document.querySelectorAll(".controls")) {
  controls.hidden = false;
  controls.addEventListener("change", ({ target }) => {
    if (target.classList.contains("log")) {
      const [linear, logarithmic] = controls.parentElement.querySelectorAll(":scope > div");
      linear.hidden = target.checked;
      logarithmic.hidden = !target.checked;
    } else {
      const arm = target.dataset.arm;
      if (target.checked) off.delete(Number(arm));
      else off.add(Number(arm));
      for (const box of document.querySelectorAll(`input[data-arm="${arm}"]`)) box.checked = target.checked;
      for (const drawn of document.querySelectorAll(`svg [data-arm="${arm}"]`)) drawn.classList.toggle("off", !target.checked);
    }
  });
}

// Tooltips: the value nearest to the pointer, or the next one by the arrow keys; up and down change the arm.

const FAR = 24;

function explore(panel) {
  const svg = panel.querySelector("svg");
  const points = JSON.parse(panel.querySelector("script").textContent);
  const tip = document.createElement("div");
  const dot = document.createElementNS(svg.namespaceURI, "circle");
  let at = -1;
  tip.className = "tip";
  tip.setAttribute("aria-live", "polite");
  dot.setAttribute("class", "dot");
  dot.setAttribute("r", "6");
  tip.hidden = true;
  panel.append(tip);

  // The browser would show the title over the values.
  svg.setAttribute("aria-label", svg.querySelector("title").textContent);
  svg.setAttribute("aria-describedby", svg.querySelector("desc").id);
  svg.removeAttribute("aria-labelledby");
  svg.querySelector("title").remove();
  svg.setAttribute("tabindex", "0");

  function show(index) {
    at = index;
    tip.hidden = index < 0;
    dot.remove();
    if (index < 0) return;
    const [x, y, , text] = points[index];
    const box = svg.viewBox.baseVal;
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", y);
    svg.append(dot);
    tip.textContent = text;
    const middle = ((x - box.x) / box.width) * panel.clientWidth;
    const half = tip.offsetWidth / 2;
    tip.style.left = `${Math.max(half, Math.min(panel.clientWidth - half, middle))}px`;
    tip.style.top = `${((y - box.y) / box.height) * panel.clientHeight}px`;
  }

  function nearest(event) {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let best = -1;
    let least = FAR;
    points.forEach(([px, py, arm], index) => {
      const distance = Math.hypot(px - x, py - y);
      if (distance < least && !off.has(arm)) [best, least] = [index, distance];
    });
    return best;
  }

  function walk(key) {
    const shown = [...points.keys()].filter((index) => !off.has(points[index][2]));
    const along = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (along) return shown.at((shown.indexOf(at) + (at < 0 && along < 0 ? 0 : along)) % shown.length);
    const arms = Array.from(new Set(shown.map((index) => points[index][2])));
    const next = arms.at((arms.indexOf(points[at]?.[2]) + (key === "ArrowDown" ? 1 : -1)) % arms.length);
    return shown.find((index) => points[index][2] === next);
  }

  svg.addEventListener("pointermove", (event) => show(nearest(event)));
  svg.addEventListener("pointerdown", (event) => show(nearest(event)));
  svg.addEventListener("pointerleave", () => show(-1));
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(-1);
    if (!event.key.startsWith("Arrow") || points.every(([, , arm]) => off.has(arm))) return;
    event.preventDefault();
    show(walk(event.key));
  });
}

document.querySelectorAll(".panel").forEach(explore);
