// Dead letters: what ran out of attempts, to be run again or let go.

import { call, pathOf } from "./api.js";
import { confirmDialog } from "./dialogs.js";
import { badge, element, rowButton } from "./elements.js";
import { age } from "./moments.js";
import { LiveTable } from "./table.js";

/** `again` looks at the letters anew, when one of them was acted upon. */
export function letterTable(again) {
  return new LiveTable({
    label: "Dead letters",
    keyOf: (letter) => letter.deadLetterID,
    nothing: "No dead letters.",
    columns: [
      {
        label: "Invocation",
        class: "narrow",
        cell: (letter) => element("strong", {}, letter.invocationID || "none"),
      },
      {
        label: "Function",
        class: "narrow",
        cell: (letter) => letter.serverlessRequestID,
      },
      {
        label: "Failure",
        cell: (letter) => [
          badge(letter.failureClass, "bad"),
          letter.error ? element("span", { class: "why", title: letter.error }, letter.error) : "",
        ],
      },
      {
        label: "Attempts",
        class: "number",
        cell: (letter) => String(letter.attempt),
      },
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
            rowButton("Redrive", now().invocationID, () => redrive(now(), again)),
            rowButton("Discard", now().invocationID, () => discard(now(), again)),
          ),
      },
    ],
  });
}

function letterFacts(letter) {
  return [
    ["Invocation", letter.invocationID],
    ["Function", letter.serverlessRequestID],
    ["Failure", letter.failureClass],
    ["Error", letter.error],
  ];
}

function redrive(letter, again) {
  confirmDialog({
    title: "Redrive this invocation?",
    text: "It is queued again, with all its attempts.",
    facts: letterFacts(letter),
    label: "Redrive",
    act: async () => {
      await call("POST", `/serverless/dead-letters${pathOf(letter.deadLetterID)}/redrive`);
      again();
    },
    done: `Invocation ${letter.invocationID} is queued again.`,
  });
}

function discard(letter, again) {
  confirmDialog({
    title: "Discard this dead letter?",
    text: "What was sent is lost, and cannot be run again.",
    facts: letterFacts(letter),
    label: "Discard",
    isDanger: true,
    act: async () => {
      await call("DELETE", `/serverless/dead-letters${pathOf(letter.deadLetterID)}`);
      again();
    },
    done: `The dead letter of ${letter.invocationID} is discarded.`,
  });
}
