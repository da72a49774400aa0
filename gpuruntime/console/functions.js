// Functions, what waits for them, and what they could not do. The queue is asked, not watched.

import { call, pathOf } from "./api.js";
import { confirmDialog, factList, problemBox } from "./dialogs.js";
import { badge, button, element, freshId, phaseBadge, say } from "./elements.js";
import { age, lengthOf } from "./moments.js";
import { LiveTable } from "./table.js";

const EVERY_MS = 3_000;
const PAGE = 50;

export function functionsPlace({ query, watch, poll }) {
  const functions = functionTable();
  const letters = letterTable();
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
      if (next) letters.table.setAttribute("aria-label", `Dead letters, the oldest ${PAGE}`);
    } catch (error) {
      letters.show([]);
      letters.empty.textContent = error.status === 400 ? "Name one of your functions to see its dead letters." : error.message;
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
      element("p", { class: "intro muted" }, "Invocations that have run out of attempts. Redriven, they begin anew."),
      letters.node,
    ),
    lookup(),
  );
}

function filterField(of) {
  const field = element("input", { type: "search", "aria-label": "Dead letters of one function", placeholder: "Of one function", value: of, autocomplete: "off", spellcheck: "false" });
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
      { label: "Name", class: "narrow", cell: (each) => element("strong", {}, each.serverlessRequestID) },
      { label: "State", cell: functionState },
      { label: "Queued", class: "number", cell: (each) => element("span", {}, String(each.queueDepth)) },
      { label: "Running", class: "number", cell: (each) => element("span", {}, String(each.running)) },
      { label: "Oldest wait", class: "number", cell: (each) => element("span", {}, each.oldestWaitSeconds ? lengthOf(each.oldestWaitSeconds) : "–") },
      { label: "Workers", cell: workers },
      { label: "Unit", class: "narrow", cell: (each) => element("span", {}, each.unitName) },
    ],
  });
}

function functionState(each) {
  if (each.suspended) return badge("Suspended", "still");
  if (each.reason) return [badge("Waiting", "bad"), element("span", { class: "why" }, each.reason)];
  const isBusy = each.queueDepth > 0 || each.running > 0;
  return isBusy ? badge("Busy", "moving") : badge("At rest", "good");
}

function workers({ workers: counts, minAvailableCount, maxWorkers }) {
  const words = [`${counts.ready} of ${counts.desired} ready`];
  if (counts.busy) words.push(`${counts.busy} busy`);
  if (counts.draining) words.push(`${counts.draining} draining`);
  return element("span", {}, words.join(", "), element("span", { class: "muted" }, ` (${minAvailableCount} to ${maxWorkers})`));
}

function letterTable() {
  return new LiveTable({
    label: "Dead letters",
    keyOf: (letter) => letter.deadLetterID,
    nothing: "No dead letters.",
    columns: [
      { label: "Invocation", class: "narrow", cell: (letter) => element("strong", {}, letter.invocationID || "none") },
      { label: "Function", class: "narrow", cell: (letter) => element("span", {}, letter.serverlessRequestID) },
      { label: "Failure", cell: (letter) => [badge(letter.failureClass, "bad"), letter.error ? element("span", { class: "why", title: letter.error }, letter.error) : ""] },
      { label: "Attempts", class: "number", cell: (letter) => element("span", {}, String(letter.attempt)) },
      { label: "Age", class: "short number", cell: (letter) => age(letter.deadAt) },
      {
        label: "Actions",
        isQuiet: true,
        isFixed: true,
        class: "acts",
        cell: (now) =>
          element(
            "span",
            { class: "actions" },
            button("Redrive", () => redrive(now()), { class: "small", "aria-label": `Redrive ${now().invocationID}`, "aria-haspopup": "dialog" }),
            button("Discard", () => discard(now()), { class: "small", "aria-label": `Discard ${now().invocationID}`, "aria-haspopup": "dialog" }),
          ),
      },
    ],
  });
}

function letterFacts(letter) {
  return [["Invocation", letter.invocationID], ["Function", letter.serverlessRequestID], ["Failure", letter.failureClass], ["Error", letter.error]];
}

function redrive(letter) {
  confirmDialog({
    title: "Redrive this invocation?",
    text: "It is queued again, with all its attempts.",
    facts: letterFacts(letter),
    label: "Redrive",
    act: () => call("POST", `/serverless/dead-letters${pathOf(letter.deadLetterID)}/redrive`),
    done: `Invocation ${letter.invocationID} is queued again.`,
  });
}

function discard(letter) {
  confirmDialog({
    title: "Discard this dead letter?",
    text: "What was sent is lost, and cannot be run again.",
    facts: letterFacts(letter),
    label: "Discard",
    isDanger: true,
    act: () => call("DELETE", `/serverless/dead-letters${pathOf(letter.deadLetterID)}`),
    done: `The dead letter of ${letter.invocationID} is discarded.`,
  });
}

function lookup() {
  const ids = [freshId("field"), freshId("field")];
  const fields = ids.map((id) => element("input", { id, required: true, autocomplete: "off", spellcheck: "false" }));
  const problem = problemBox();
  const found = element("div", { class: "found" });

  async function show(name, id) {
    problem.clear();
    found.replaceChildren();
    try {
      const { data } = await call("GET", `/serverless/invocations${pathOf(id)}?serverlessRequestID=${encodeURIComponent(name)}`);
      found.replaceChildren(...invocation(data, () => show(name, id)));
      say(`Invocation ${id} is ${data.state}.`);
    } catch (error) {
      problem.show(error);
    }
  }

  return element(
    "section",
    { "aria-labelledby": "lookup" },
    element("div", { class: "head" }, element("h2", { id: "lookup" }, "Look up an invocation")),
    element(
      "form",
      {
        class: "filters",
        onsubmit: (event) => {
          event.preventDefault();
          show(fields[0].value.trim(), fields[1].value.trim());
        },
      },
      element("div", { class: "filter" }, element("label", { for: ids[0] }, "Function"), fields[0]),
      element("div", { class: "filter" }, element("label", { for: ids[1] }, "Invocation"), fields[1]),
      element("div", { class: "filter low" }, element("button", { type: "submit" }, "Look up")),
    ),
    problem.node,
    found,
  );
}

function invocation(data, again) {
  const isLive = data.state === "queued" || data.state === "running";
  const facts = factList([
    ["State", element("span", {}, phaseBadge(data.state))],
    ["Attempt", data.attempt],
    ["Worker", data.workerName],
    ["Accepted", data.acceptedAt ? new Date(data.acceptedAt).toLocaleString() : ""],
    ["Completed", data.completedAt ? new Date(data.completedAt).toLocaleString() : ""],
    ["Failure", data.failureClass],
    ["Error", data.error],
    ["Status", data.statusCode],
  ]);
  const body = data.body === null || data.body === undefined ? "" : element("pre", { tabindex: "0", "aria-label": "What the function answered" }, JSON.stringify(data.body, null, 2).slice(0, 20_000));
  return [facts, body, isLive ? element("footer", {}, button("Look again", again), button("Cancel invocation", () => cancel(data, again))) : ""].filter(Boolean);
}

function cancel(data, again) {
  confirmDialog({
    title: "Cancel this invocation?",
    text: "Queued, it never starts; running, it is broken off.",
    facts: [["Invocation", data.invocationID], ["Function", data.serverlessRequestID]],
    label: "Cancel invocation",
    isDanger: true,
    act: async () => {
      await call("DELETE", `/serverless/invocations${pathOf(data.invocationID)}?serverlessRequestID=${encodeURIComponent(data.serverlessRequestID)}`);
      again();
    },
    done: `Invocation ${data.invocationID} is cancelled.`,
  });
}
