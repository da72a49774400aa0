// How far a unit came, and what took how long, as a bar with words.

import { element } from "./elements.js";
import { lengthOf } from "./moments.js";

const STEPS = [
  ["acceptedAt", "accepted"],
  ["claimedAt", "claimed"],
  ["createdAt", "created"],
  ["scheduledAt", "scheduled"],
  ["startedAt", "started"],
  ["readyAt", "ready"],
];

// Of the whole; no step is too small to be seen.
const PARTS = 50;

/** Steps that were reached, each with the seconds since the one before it. */
export function stepsOf(timeline) {
  const steps = [];
  let before = null;
  for (const [field, word] of STEPS) {
    if (!timeline[field]) continue;
    const at = Date.parse(timeline[field]);
    // Two of the clocks count whole seconds, so a step may seem to come before the last.
    const reached = before === null ? at : Math.max(at, before);
    steps.push({
      word,
      at: timeline[field],
      seconds: before === null ? 0 : (reached - before) / 1000,
    });
    before = reached;
  }
  return steps;
}

export function timelineBar(unit) {
  const steps = stepsOf(unit.timeline);
  const last = steps.at(-1);
  const isReady = last?.word === "ready";
  // A function is Ready without ever having run itself.
  if (steps.length < 2 || (unit.phase === "Ready" && !isReady))
    return element("span", { class: "muted" }, "–");
  const total = steps.reduce((sum, step) => sum + step.seconds, 0);
  const spoken = steps.slice(1).map((step) => `${step.word} after ${lengthOf(step.seconds)}`);
  const bar = element("span", {
    class: "timeline",
    role: "img",
    "aria-label": spoken.join(", "),
    title: spoken.join("\n"),
  });
  for (const step of steps.slice(1)) {
    const part = element("span", { "data-step": step.word });
    part.style.flexGrow = String(total ? Math.max((step.seconds / total) * PARTS, 1) : 1);
    bar.append(part);
  }
  if (!isReady)
    bar.append(element("span", { "data-step": unit.phase === "Failed" ? "failed" : "open" }));
  const words = isReady ? lengthOf(total) : last.word;
  return element("span", { class: "course" }, bar, element("span", { class: "muted" }, words));
}

export function timelineList(unit) {
  const rows = stepsOf(unit.timeline).map((step, index) =>
    element(
      "li",
      {},
      element("span", { class: "step" }, step.word),
      element("time", { datetime: step.at }, new Date(step.at).toLocaleTimeString()),
      element("span", { class: "muted" }, index ? `+${lengthOf(step.seconds)}` : ""),
    ),
  );
  return rows.length
    ? element("ol", { class: "steps" }, ...rows)
    : element("p", { class: "muted" }, "Nothing yet.");
}
