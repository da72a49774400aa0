// Functions, what waits for them, and what they could not do. The queue is asked, not watched.

import { call } from "./api.js";
import { badge, element } from "./elements.js";
import { lookup } from "./invocations.js";
import { letterTable } from "./letters.js";
import { lengthOf } from "./moments.js";
import { LiveTable } from "./table.js";

const EVERY_MS = 3_000;
const PAGE = 50;

export function functionsPlace({ query, watch, poll }) {
  const functions = functionTable();
  const letters = letterTable(() => lookAtLetters());
  const trouble = element("p", { class: "notice", hidden: true });
  const more = element("p", { class: "muted" });
  const of = query.get("function") ?? "";
  const filter = filterField(of);

  async function look() {
    try {
      const { data, next } = await call("GET", "/serverless/functions?limit=200");
      functions.show(data);
      more.textContent = next ? `The first ${data.length} are shown.` : "";
      trouble.hidden = true;
    } catch (error) {
      if (error.status === 401) return;
      functions.show(functions.items);
      trouble.textContent = error.message;
      trouble.hidden = false;
    }
  }

  async function lookAtLetters() {
    try {
      const asked = new URLSearchParams({ limit: PAGE });
      if (of) asked.set("serverlessRequestID", of);
      const { data, next } = await call("GET", `/serverless/dead-letters?${asked}`);
      letters.show(data);
      const name = next ? `Dead letters, the oldest ${PAGE}` : "Dead letters";
      letters.table.setAttribute("aria-label", name);
    } catch (error) {
      letters.show([]);
      letters.empty.textContent =
        error.status === 400
          ? "Name one of your functions to see its dead letters."
          : error.message;
    }
  }

  watch("fleet", new URLSearchParams(), () => {});
  poll(look, EVERY_MS);
  poll(lookAtLetters, EVERY_MS);
  return element(
    "div",
    {},
    element(
      "section",
      { "aria-labelledby": "title" },
      element("div", { class: "head" }, element("h1", { id: "title" }, "Functions")),
      trouble,
      functions.node,
      more,
    ),
    element(
      "section",
      { "aria-labelledby": "letters" },
      element("div", { class: "head" }, element("h2", { id: "letters" }, "Dead letters"), filter),
      element(
        "p",
        { class: "intro muted" },
        "Invocations that have run out of attempts. Redriven, they begin anew.",
      ),
      letters.node,
    ),
    lookup(),
  );
}

function filterField(of) {
  const field = element("input", {
    type: "search",
    "aria-label": "Dead letters of one function",
    placeholder: "Of one function",
    value: of,
    autocomplete: "off",
    spellcheck: "false",
  });
  return element(
    "form",
    {
      role: "search",
      onsubmit: (event) => {
        event.preventDefault();
        const name = field.value.trim();
        location.hash = name ? `#/functions?function=${encodeURIComponent(name)}` : "#/functions";
      },
    },
    field,
  );
}

function functionTable() {
  return new LiveTable({
    label: "Functions",
    keyOf: (each) => each.serverlessRequestID,
    nothing: "There is no function. A unit with serverless.requestID declares one.",
    columns: [
      {
        label: "Name",
        class: "narrow",
        cell: (each) => element("strong", {}, each.serverlessRequestID),
      },
      { label: "State", cell: functionState },
      {
        label: "Queued",
        class: "number",
        cell: (each) => String(each.queueDepth),
      },
      {
        label: "Running",
        class: "number",
        cell: (each) => String(each.running),
      },
      {
        label: "Oldest wait",
        class: "number",
        cell: (each) =>
          element("span", {}, each.oldestWaitSeconds ? lengthOf(each.oldestWaitSeconds) : "–"),
      },
      { label: "Workers", cell: workers },
      { label: "Unit", class: "narrow", cell: (each) => each.unitName },
    ],
  });
}

function functionState(each) {
  if (each.suspended) return badge("Suspended", "still");
  if (each.reason)
    return [badge("Waiting", "bad"), element("span", { class: "why", title: each.message }, each.reason)];
  const isBusy = each.queueDepth > 0 || each.running > 0;
  return isBusy ? badge("Busy", "moving") : badge("At rest", "good");
}

function workers({ workers: counts, minAvailableCount, maxWorkers }) {
  const words = [`${counts.ready} of ${counts.desired} ready`];
  if (counts.busy) words.push(`${counts.busy} busy`);
  if (counts.outdated) words.push(`${counts.outdated} outdated`);
  if (counts.draining) words.push(`${counts.draining} draining`);
  return element(
    "span",
    {},
    words.join(", "),
    element("span", { class: "muted" }, ` (${minAvailableCount} to ${maxWorkers})`),
  );
}
