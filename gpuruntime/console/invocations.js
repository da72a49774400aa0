// One invocation, found by its function and its id.

import { call, pathOf } from "./api.js";
import { confirmDialog, factList, problemBox } from "./dialogs.js";
import { button, element, freshId, phaseBadge, say } from "./elements.js";

export function lookup() {
  const ids = [freshId("field"), freshId("field")];
  const fields = ids.map((id) =>
    element("input", { id, required: true, autocomplete: "off", spellcheck: "false" }),
  );
  const problem = problemBox();
  const found = element("div", { class: "found" });

  async function show(name, id) {
    problem.clear();
    found.replaceChildren();
    try {
      const { data } = await call(
        "GET",
        `/serverless/invocations${pathOf(id)}?serverlessRequestID=${encodeURIComponent(name)}`,
      );
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
      element(
        "div",
        { class: "filter" },
        element("label", { for: ids[0] }, "Function"),
        fields[0],
      ),
      element(
        "div",
        { class: "filter" },
        element("label", { for: ids[1] }, "Invocation"),
        fields[1],
      ),
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
    ["Position", data.position],
    ["Waits for", data.waitingFor && `${data.waitingFor.reason}: ${data.waitingFor.message}`],
    ["Attempt", data.attempt],
    ["Worker", data.workerName],
    ["Accepted", data.acceptedAt ? new Date(data.acceptedAt).toLocaleString() : ""],
    ["Completed", data.completedAt ? new Date(data.completedAt).toLocaleString() : ""],
    ["Failure", data.failureClass],
    ["Error", data.error?.message],
    ["Status", data.statusCode],
  ]);
  const body =
    data.body === null || data.body === undefined
      ? ""
      : element(
          "pre",
          { tabindex: "0", "aria-label": "What the function answered" },
          JSON.stringify(data.body, null, 2).slice(0, 20_000),
        );
  return [
    facts,
    body,
    isLive
      ? element(
          "footer",
          {},
          button("Look again", again),
          button("Cancel invocation", () => cancel(data, again)),
        )
      : "",
  ].filter(Boolean);
}

function cancel(data, again) {
  confirmDialog({
    title: "Cancel this invocation?",
    text: "Queued, it never starts; running, it is broken off.",
    facts: [
      ["Invocation", data.invocationID],
      ["Function", data.serverlessRequestID],
    ],
    label: "Cancel invocation",
    isDanger: true,
    act: async () => {
      await call(
        "DELETE",
        `/serverless/invocations${pathOf(data.invocationID)}?serverlessRequestID=${encodeURIComponent(data.serverlessRequestID)}`,
      );
      again();
    },
    done: `Invocation ${data.invocationID} is cancelled.`,
  });
}
