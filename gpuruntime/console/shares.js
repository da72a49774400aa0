// How stock stands, as a bar with words.

import { element } from "./elements.js";

const STATES = ["available", "claimed", "progressing", "failed"];

/** Of anything that counts its stock by state. */
export function sharesBar(counts) {
  const there = STATES.filter((state) => counts[state] > 0);
  const words = there.map((state) => `${counts[state]} ${state}`).join(", ") || "none";
  const bar = element("span", { class: "shares", "aria-hidden": "true" });
  for (const state of there) {
    const part = element("span", { "data-state": state });
    part.style.flexGrow = String(counts[state]);
    bar.append(part);
  }
  return element("span", { class: "stood" }, bar, element("span", { class: "muted" }, words));
}
