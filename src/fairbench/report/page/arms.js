// Arms: one set of switches for all figures, seen while a figure is in view. An arm that is pointed at stands out.

const arms = document.getElementById("arms");
const switches = Array.from(arms.querySelectorAll("[data-switch]"));
const hidden = new CSSStyleSheet();
const lit = new CSSStyleSheet();
const off = new Set();

document.adoptedStyleSheets = [hidden, lit];

function swatch(arm) {
  return switches[arm].querySelector("svg").cloneNode(true);
}

function keep() {
  choose("off", Array.from(off).sort((a, b) => a - b).join(","));
  showSwitches();
}

function showSwitches() {
  switches.forEach((label, arm) => (label.firstChild.checked = !off.has(arm)));
  arms.querySelector("output").value = `${switches.length - off.size} of ${switches.length} shown`;
  hidden.replaceSync(Array.from(off, (arm) => `.panel svg [data-arm="${arm}"] { display: none; }`).join(" "));
}

function highlight(target) {
  const arm = target?.closest?.("[data-switch]")?.dataset.switch;
  const rest = `.panel svg [data-arm]:not([data-arm="${arm}"]) { opacity: 0.15; }`;
  lit.replaceSync(arm === undefined ? "" : rest);
}

arms.addEventListener("change", ({ target }) => {
  const arm = Number(target.closest("[data-switch]")?.dataset.switch);
  if (target.type !== "checkbox") return;
  if (target.checked) off.delete(arm);
  else off.add(arm);
  keep();
});

arms.addEventListener("click", ({ target }) => {
  if (target.localName !== "button") return;
  switches.forEach((label, arm) => {
    if (label.hidden ? target.value === "only" : target.value === "none") off.add(arm);
    else if (!label.hidden) off.delete(arm);
  });
  keep();
});

arms.querySelector("input[type=search]").addEventListener("input", ({ target }) => {
  for (const label of switches) label.hidden = !matches(label, words(target.value));
});

for (const event of ["pointerover", "focusin"]) arms.addEventListener(event, ({ target }) => highlight(target));
for (const event of ["pointerleave", "focusout"]) arms.addEventListener(event, () => highlight(null));

// Names of arms that no figure in view has are pale.
const inView = new Set();

const viewed = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) inView.add(target);
    else inView.delete(target);
  }
  arms.hidden = false;
  arms.classList.toggle("unseen", inView.size === 0); // the keyboard reaches them also then
  const drawn = Array.from(inView).flatMap((figure) => Array.from(figure.querySelectorAll("[data-arm]")));
  const present = new Set(drawn.map((element) => Number(element.dataset.arm)));
  switches.forEach((label, arm) => label.classList.toggle("absent", !present.has(arm)));
});

// What gets the focus is scrolled to a place that the bar does not cover.
new ResizeObserver(() => {
  document.documentElement.style.scrollPaddingBottom = `${arms.offsetHeight + 16}px`;
}).observe(arms);

arms.querySelector("details").open = matchMedia("(min-width: 40.01rem)").matches && switches.length < 15;

follow(() => {
  off.clear();
  for (const arm of chosen("off").split(",").filter(Boolean)) off.add(Number(arm));
  showSwitches();
});
