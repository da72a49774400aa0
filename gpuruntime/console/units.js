// Units that serve somebody, and what one of them is.

import { call, operationId, pathOf } from "./api.js";
import {
  actionButton,
  confirmDialog,
  factList,
  formDialog,
  openDialog,
  problemBox,
} from "./dialogs.js";
import { button, element, phaseBadge, rowButton, say } from "./elements.js";
import { LiveList } from "./lists.js";
import { age, clockTime } from "./moments.js";
import { reachActions } from "./reach.js";
import { timelineBar, timelineList } from "./timeline.js";

export const PHASES = ["", "Ready", "Progressing", "Suspended", "Failed"];

export function stateCell(item) {
  const parts = [phaseBadge(item.phase)];
  const isWell = item.phase === "Ready";
  if (!isWell && (item.reason || item.message)) {
    const words = [item.reason, item.message].filter(Boolean).join(": ");
    parts.push(element("span", { class: "why", title: words }, words));
  }
  return parts;
}

export function envelope(item) {
  const parts = [
    item.gpu ? `${item.gpu} GPU` : "",
    item.gpuProduct,
    item.cpu ? `${item.cpu} CPU` : "",
    item.memory,
  ];
  return parts.filter(Boolean).join(", ");
}

function role(unit) {
  if (!unit.function) return unit.tenant;
  const words = `${unit.isWorker ? "worker of" : "function"} ${unit.function}`;
  return unit.tenant ? `${words}, ${unit.tenant}` : words;
}

export function unitColumns() {
  return [
    {
      label: "Name",
      isFixed: true,
      class: "narrow",
      cell: (now) =>
        button(now().name, () => showUnit(now().name), {
          class: "name",
          "aria-haspopup": "dialog",
        }),
    },
    { label: "State", cell: stateCell },
    { label: "Spec", cell: (unit) => element("span", { title: envelope(unit) }, unit.specName) },
    { label: "Timeline", class: "short", cell: timelineBar },
    { label: "For", class: "narrow", cell: (unit) => role(unit) || "–" },
    { label: "Node", class: "narrow", cell: (unit) => unit.nodeName || "–" },
    { label: "Age", class: "short number", cell: (unit) => age(unit.createdAt) },
    {
      label: "Actions",
      isQuiet: true,
      isFixed: true,
      class: "acts",
      cell: (now) => rowButton("Delete", `unit ${now().name}`, () => deleteUnit(now().name)),
    },
  ];
}

export function unitsPlace({ query, watch, specNames }) {
  const list = new LiveList({
    title: "Units",
    stream: "units",
    query,
    watch,
    filters: [
      { name: "phase", label: "Phase", choices: PHASES },
      { name: "specName", label: "Spec", suggestions: specNames },
      { name: "tenant", label: "Tenant" },
    ],
    table: {
      label: "Units",
      columns: unitColumns(),
      nothing: "No unit is like this. A new one claims a ready unit of stock.",
    },
    actions: [
      openByName(),
      button("New unit", () => createUnit(specNames()), {
        class: "primary",
        "aria-haspopup": "dialog",
      }),
    ],
  });
  return list.node;
}

function openByName() {
  const field = element("input", {
    type: "search",
    placeholder: "Open by name",
    "aria-label": "Open a unit by its name",
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
        if (name) showUnit(name);
      },
    },
    field,
  );
}

function createUnit(specNames) {
  const operationID = operationId("unit");
  formDialog({
    title: "New unit",
    intro: "Claims a ready unit of stock of the spec, and runs the image in its place.",
    label: "Create unit",
    fields: [
      {
        name: "name",
        label: "Name",
        hint: "Lower case letters, digits and hyphens. Left out, one is made up.",
        pattern: "[a-z0-9]([\\-a-z0-9]*[a-z0-9])?",
      },
      { name: "specName", label: "Spec", isRequired: true, suggestions: specNames },
      { name: "image", label: "Image", isRequired: true, hint: "Such as python:3.12" },
      {
        name: "command",
        label: "Command",
        hint: "Words, parted by blanks. Left out, it is the image's own.",
      },
      {
        name: "port",
        label: "Port",
        type: "number",
        min: 1,
        max: 65535,
        hint: "Where it serves. The unit is ready when this takes connections.",
      },
      { name: "storage", label: "Storage", hint: "The name of a storage, mounted at /data." },
      { name: "tenant", label: "Tenant" },
    ],
    request: (given) => unitBody(operationID, given),
    send: (body) => call("POST", "/gpu-units", body),
    done: (_, answer) => `Unit ${answer.data.name} is created.`,
  });
}

function unitBody(operationID, given) {
  const body = { operationID, specName: given.specName, image: given.image };
  if (given.name) body.name = given.name;
  if (given.tenant) body.tenant = given.tenant;
  const template = {};
  if (given.command) template.command = given.command.split(/\s+/);
  if (given.port) template.ports = [{ name: "main", port: Number(given.port) }];
  if (Object.keys(template).length) body.template = template;
  if (given.storage) body.storageMounts = [{ name: given.storage, mountPath: "/data" }];
  return body;
}

export function deleteUnit(name) {
  confirmDialog({
    title: `Delete unit ${name}?`,
    text: "Its Pod ends at once, and what it keeps outside of a storage is lost. Storages stay.",
    label: "Delete unit",
    isDanger: true,
    act: () => call("DELETE", `/gpu-units${pathOf(name)}`),
    done: `Unit ${name} is deleted.`,
  });
}

async function showUnit(name) {
  const { content, close } = openDialog(`Unit ${name}`, { isWide: true });
  const problem = problemBox();
  content.append(element("p", { class: "muted" }, "Loading…"));
  try {
    const unit = (await call("GET", `/gpu-units${pathOf(name)}`)).data;
    content.replaceChildren(
      ...unitFacts(unit),
      ...reachActions(unit, problem),
      ...unitActions(unit, close, problem),
    );
    content.append(element("h3", {}, "What happened"), await happenings(name));
  } catch (error) {
    content.replaceChildren(problem.node);
    problem.show(error);
  }
}

function unitFacts(unit) {
  const mounts = unit.storageMounts.map(
    (each) => `${each.name} at ${each.mountPath}${each.readOnly ? " (read only)" : ""}`,
  );
  return [
    factList([
      ["State", element("span", {}, phaseBadge(unit.phase))],
      ["Reason", unit.reason],
      ["Message", unit.message],
      ["Spec", `${unit.specName}${envelope(unit) ? ` (${envelope(unit)})` : ""}`],
      ["Image", unit.image],
      ["Command", [...unit.template.command, ...unit.template.args].join(" ")],
      ["Address", unit.accessURL],
      ["Storages", mounts.join(", ")],
      ["Function", unit.serverless?.requestID],
      ["Tenant", unit.tenant],
      ["Node", unit.nodeName],
      ["From stock", unit.sourceStock?.name],
      ["Operation", unit.operationID],
      ["Created", unit.createdAt ? new Date(unit.createdAt).toLocaleString() : ""],
    ]),
    element("h3", {}, "Timeline"),
    timelineList(unit),
  ];
}

function unitActions(unit, close, problem) {
  const { name, suspended } = unit;
  async function switchOver() {
    await call("PUT", `/gpu-units${pathOf(name)}`, { suspended: !suspended });
    close();
    say(suspended ? `Unit ${name} is resumed.` : `Unit ${name} is suspended.`);
  }
  const toggle = actionButton(suspended ? "Resume" : "Suspend", problem, switchOver);
  const remove = button("Delete…", () => {
    close();
    deleteUnit(name);
  });
  return [problem.node, element("footer", {}, toggle, remove)];
}

async function happenings(name) {
  const { data } = await call("GET", `/gpu-units${pathOf(name)}/events?limit=20`);
  if (data.length === 0)
    return element("p", { class: "muted" }, "Nothing that the cluster remembers.");
  const rows = data.map((each) =>
    element(
      "li",
      {},
      element("span", { class: "muted" }, `${clockTime(each.lastSeenAt ?? each.firstSeenAt)} `),
      element("strong", {}, `${each.reason} `),
      each.message,
    ),
  );
  return element("ul", { class: "happenings" }, ...rows);
}
