// Storages: what outlives the units that mount it.

import { call, operationId, pathOf } from "./api.js";
import { confirmDialog, formDialog } from "./dialogs.js";
import { button, element, rowButton } from "./elements.js";
import { LiveList } from "./lists.js";
import { age } from "./moments.js";
import { stateCell } from "./units.js";

export function storagesPlace({ query, watch }) {
  const list = new LiveList({
    title: "Storages",
    intro: "Volumes that units mount, one unit at a time.",
    stream: "storages",
    query,
    watch,
    table: { label: "Storages", columns: storageColumns(), nothing: "There is no storage yet." },
    actions: [
      button("New storage", createStorage, { class: "primary", "aria-haspopup": "dialog" }),
    ],
  });
  return list.node;
}

function storageColumns() {
  return [
    { label: "Name", class: "narrow", cell: (storage) => element("strong", {}, storage.name) },
    { label: "State", cell: stateCell },
    {
      label: "Size",
      class: "short",
      cell: (storage) => storage.size,
    },
    { label: "Filled", cell: filled },
    {
      label: "Mounted by",
      class: "narrow",
      cell: (storage) => storage.mountedBy.join(", ") || "–",
    },
    {
      label: "Tenant",
      class: "narrow",
      cell: (storage) => storage.tenant || "–",
    },
    { label: "Age", class: "short number", cell: (storage) => age(storage.createdAt) },
    {
      label: "Actions",
      isQuiet: true,
      class: "acts",
      cell: (storage) =>
        element(
          "span",
          { class: "actions" },
          storage.prepare === "Failed"
            ? rowButton("Recover", `storage ${storage.name}`, () => recoverStorage(storage.name))
            : "",
          rowButton("Delete", `storage ${storage.name}`, () => deleteStorage(storage)),
        ),
    },
  ];
}

function filled(storage) {
  if (!storage.filledFrom) return element("span", { class: "muted" }, "as it is");
  return element(
    "span",
    {},
    `from ${storage.filledFrom}`,
    element("span", { class: "muted" }, ` ${storage.prepare.toLowerCase()}`),
  );
}

function createStorage() {
  const operationID = operationId("storage");
  formDialog({
    title: "New storage",
    label: "Create storage",
    fields: [
      {
        name: "name",
        label: "Name",
        isRequired: true,
        hint: "Lower case letters, digits and hyphens.",
        pattern: "[a-z0-9]([\\-a-z0-9]*[a-z0-9])?",
      },
      {
        name: "size",
        label: "Size",
        isRequired: true,
        value: "10Gi",
        hint: "It may grow later, and never shrinks.",
      },
      {
        name: "storageClassName",
        label: "Storage class",
        hint: "Left out, it is the cluster's default.",
      },
      {
        name: "fromStorageName",
        label: "Copy of",
        hint: "The name of a storage that it is filled from.",
      },
      { name: "accessor", label: "Serve its files", isSwitch: true },
      { name: "tenant", label: "Tenant" },
    ],
    request: (given) => {
      const body = { operationID, name: given.name, size: given.size };
      if (given.storageClassName) body.storageClassName = given.storageClassName;
      if (given.fromStorageName) body.prepare = { fromStorageName: given.fromStorageName };
      if (given.accessor) body.accessor = { enabled: true };
      if (given.tenant) body.tenant = given.tenant;
      return body;
    },
    send: (body) => call("POST", "/gpu-storages", body),
    done: (body) => `Storage ${body.name} is created.`,
  });
}

function recoverStorage(name) {
  confirmDialog({
    title: `Recover storage ${name}?`,
    text: "Its prepare failed. It is run once more, over what is there.",
    label: "Recover",
    act: () => call("POST", `/gpu-storages${pathOf(name)}/recover`),
    done: `Storage ${name} is asked to recover.`,
  });
}

function deleteStorage(storage) {
  confirmDialog({
    title: `Delete storage ${storage.name}?`,
    text: "All that is in it is lost. While a unit mounts it, it cannot be deleted.",
    facts: [
      ["Size", storage.size],
      ["Mounted by", storage.mountedBy.join(", ")],
    ],
    label: "Delete storage",
    isDanger: true,
    act: () => call("DELETE", `/gpu-storages${pathOf(storage.name)}`),
    done: `Storage ${storage.name} is deleted.`,
  });
}
