// Elements from values: texts become text nodes, so no text is ever read as markup.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child || child === 0));
  return made;
}

export function button(label, press, attributes = {}) {
  return element("button", { type: "button", onclick: press, ...attributes }, label);
}

/** A small button of a row that opens a dialog; a screen reader hears what it acts on, too. */
export function rowButton(verb, object, open) {
  return button(verb, open, {
    class: "small",
    "aria-label": `${verb} ${object}`,
    "aria-haspopup": "dialog",
  });
}

export function badge(word, kind) {
  return element("span", { class: "badge", "data-kind": kind }, word);
}

const KINDS = {
  Ready: "good",
  succeeded: "good",
  Progressing: "moving",
  Pending: "moving",
  queued: "moving",
  running: "moving",
  Failed: "bad",
  failed: "bad",
  dead_lettered: "bad",
  expired: "bad",
};

export function phaseBadge(phase) {
  return badge(phase, KINDS[phase] ?? "still");
}

/** Words for whoever cannot see what changed; politely, one after the other. */
export function say(words) {
  const said = document.getElementById("said");
  said.textContent = words;
}

let numbered = 0;

export function freshId(stem) {
  numbered += 1;
  return `${stem}-${numbered}`;
}
