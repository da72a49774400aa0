// Pools: which stock there should be.

import { call, operationId, pathOf } from "./api.js";
import { confirmDialog, formDialog } from "./dialogs.js";
import { button, element, rowButton } from "./elements.js";
import { LiveList } from "./lists.js";
import { age } from "./moments.js";
import { sharesBar } from "./shares.js";
import { envelope, stateCell } from "./units.js";

export function poolsPlace({ query, watch, specNames }) {
  const list = new LiveList({
    title: "Pools",
    intro: "A pool keeps so many units of a spec in stock, or makes them once.",
    stream: "pools",
    query,
    watch,
    table: {
      label: "Pools",
      columns: poolColumns(),
      nothing: "There is no pool yet. Make one, and units can be claimed from it.",
    },
    actions: [
      button("New pool", () => createPool(specNames()), {
        class: "primary",
        "aria-haspopup": "dialog",
      }),
    ],
  });
  return list.node;
}

function poolColumns() {
  return [
    { label: "Name", class: "narrow", cell: (pool) => element("strong", {}, pool.name) },
    { label: "State", cell: stateCell },
    { label: "Spec", cell: (pool) => element("span", { title: envelope(pool) }, pool.specName) },
    {
      label: "Wanted",
      cell: (pool) =>
        element("span", {}, `${pool.replicas} ${pool.refill === "Always" ? "kept up" : "once"}`),
    },
    { label: "Stock", cell: sharesBar },
    {
      label: "Stale",
      class: "number",
      cell: (pool) =>
        element("span", { title: "With an earlier image or template" }, String(pool.stale)),
    },
    {
      label: "Consumed",
      class: "number",
      cell: (pool) => String(pool.consumed),
    },
    { label: "Age", class: "short number", cell: (pool) => age(pool.createdAt) },
    {
      label: "Actions",
      isQuiet: true,
      isFixed: true,
      class: "acts",
      cell: (now) =>
        element(
          "span",
          { class: "actions" },
          rowButton("Resize", `pool ${now().name}`, () => resizePool(now())),
          rowButton("Delete", `pool ${now().name}`, () => deletePool(now())),
        ),
    },
  ];
}

function createPool(specNames) {
  const operationID = operationId("pool");
  formDialog({
    title: "New pool",
    label: "Create pool",
    fields: [
      {
        name: "name",
        label: "Name",
        hint: "Lower case letters, digits and hyphens, at most 52. Left out, one is made up.",
        pattern: "[a-z0-9]([\\-a-z0-9]*[a-z0-9])?",
      },
      {
        name: "specName",
        label: "Spec",
        isRequired: true,
        suggestions: specNames,
        hint: "One spec has one envelope: what follows.",
      },
      { name: "gpu", label: "GPUs", type: "number", min: 0, max: 10000, value: "1" },
      {
        name: "cpu",
        label: "CPU",
        hint: "Such as 4 or 500m. Left out, it is the manager's default.",
      },
      {
        name: "memory",
        label: "Memory",
        hint: "Such as 16Gi. Left out, it is the manager's default.",
      },
      {
        name: "replicas",
        label: "Units",
        type: "number",
        min: 0,
        max: 10000,
        value: "2",
        isRequired: true,
      },
      {
        name: "refill",
        label: "Refill",
        choices: [
          ["Always", "Always: keep so many unclaimed"],
          ["Never", "Never: make so many once"],
        ],
        value: "Always",
      },
      {
        name: "image",
        label: "Image",
        hint: "What its units run, so that it is on their nodes before a claim.",
      },
    ],
    request: (given) => poolBody(operationID, given),
    send: (body) => call("POST", "/operator/stockpools", body),
    done: (_, answer) => `Pool ${answer.data.name} is created.`,
  });
}

function poolBody(operationID, given) {
  const body = {
    operationID,
    specName: given.specName,
    replicas: Number(given.replicas),
    refill: given.refill,
  };
  for (const name of ["name", "cpu", "memory", "image"]) if (given[name]) body[name] = given[name];
  if (given.gpu) body.gpu = Number(given.gpu);
  return body;
}

function resizePool(pool) {
  formDialog({
    title: `Resize pool ${pool.name}`,
    intro: "Fewer units: those that are not ready go first, claimed ones never.",
    label: "Resize pool",
    fields: [
      {
        name: "replicas",
        label: "Units",
        type: "number",
        min: 0,
        max: 10000,
        value: String(pool.replicas),
        isRequired: true,
      },
    ],
    request: (given) => ({ replicas: Number(given.replicas) }),
    send: (body) => call("PUT", `/operator/stockpools${pathOf(pool.name)}`, body),
    done: (body) => `Pool ${pool.name} is to have ${body.replicas} units.`,
  });
}

function deletePool(pool) {
  confirmDialog({
    title: `Delete pool ${pool.name}?`,
    text: "Its unclaimed stock goes with it. Units that were claimed from it stay.",
    facts: [
      ["Spec", pool.specName],
      ["Available", pool.available],
      ["Claimed", pool.claimed],
    ],
    label: "Delete pool",
    isDanger: true,
    act: () => call("DELETE", `/operator/stockpools${pathOf(pool.name)}`),
    done: `Pool ${pool.name} is deleted.`,
  });
}
