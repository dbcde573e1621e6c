"use strict";
// Optional: everything can be read without these scripts.

// The view: what a reader has chosen, kept in the address as #place?key=value&..., so that a link shows it again.

const state = { place: "", choices: new URLSearchParams(), followers: [] };

// The value of a choice, or an empty text.
function chosen(key) {
  return state.choices.get(key) ?? "";
}

// Keep a choice; an empty text is the default and is left out of the address.
function choose(key, value) {
  if (value) state.choices.set(key, value);
  else state.choices.delete(key);
  history.replaceState(null, "", address(state.place));
}

// The link to a place of the page with the present view.
function address(place) {
  const choices = state.choices.toString();
  return `#${place}${choices && `?${choices}`}`;
}

// Let a link to a place lead to the present view.
function keepView(link, place) {
  for (const event of ["pointerenter", "focus"]) link.addEventListener(event, () => (link.href = address(place)));
  link.href = address(place);
}

// Call a function that shows the choices: now, and whenever a link brings others.
function follow(show) {
  state.followers.push(show);
  show();
}

// A link without choices leads to its place and keeps the view.
function read() {
  const [place, choices] = location.hash.slice(1).split("?");
  state.place = place;
  if (choices !== undefined) state.choices = new URLSearchParams(choices);
  else history.replaceState(null, "", address(place));
}

// The browser itself finds a place only if its id is all of the fragment.
function arrive() {
  const target = document.getElementById(state.place);
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target?.scrollIntoView();
}

if (location.hash) read();
addEventListener("hashchange", () => {
  read();
  for (const show of state.followers) show();
  arrive();
});
document.addEventListener("DOMContentLoaded", arrive);
