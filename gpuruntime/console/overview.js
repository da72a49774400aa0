// How all of it stands: totals, stock and units by spec, and what failed.

import { call } from "./api.js";
import { element } from "./elements.js";
import { sharesBar } from "./shares.js";
import { LiveTable } from "./table.js";
import { unitColumns } from "./units.js";

const EVERY_MS = 15_000;
const MOST_FAILED = 20;

export function overviewPlace({ watch, poll, heedFleet, isBound }) {
  const totals = element("dl", { class: "totals", "aria-label": "Totals" });
  const specs = specTable();
  const flavours = flavourTable();
  const products = gpuTable("GPUs by product", "Product", (each) => each.product || "unnamed");
  const nodes = gpuTable("GPUs by node", "Node", (each) => each.name);
  const failed = new LiveTable({
    label: "Failed units",
    columns: unitColumns(),
    nothing: "No unit has failed.",
  });
  const more = element(
    "p",
    { class: "muted", hidden: true },
    element("a", { href: "#/units?phase=Failed" }, "All failed units"),
  );

  heedFleet((fleet) => specs.show(fleet.specs));
  watch("units", new URLSearchParams({ phase: "Failed", limit: MOST_FAILED }), (name, data) => {
    if (name !== "page" && name !== "change") return;
    failed.change(data.put, data.names);
    more.hidden = !data.next;
  });
  poll(async () => {
    const { data } = await call("GET", "/health");
    totals.replaceChildren(...totalsOf(data));
  }, EVERY_MS);
  poll(async () => {
    const { data } = await call("GET", "/flavours?limit=1000");
    flavours.show(data);
  }, EVERY_MS);
  if (!isBound()) {
    poll(async () => {
      const { data } = await call("GET", "/operator/inventory");
      products.show(data.gpuProducts);
      nodes.show(data.nodes.filter((node) => node.gpuCapacity));
    }, EVERY_MS);
  }

  const bySpec = element(
    "section",
    { "aria-labelledby": "specs" },
    element("div", { class: "head" }, element("h2", { id: "specs" }, "Stock and units by spec")),
    specs.node,
  );
  const offers = element(
    "section",
    { "aria-labelledby": "flavours" },
    element("div", { class: "head" }, element("h2", { id: "flavours" }, "Flavours")),
    flavours.node,
  );
  const gpus = element(
    "section",
    { "aria-labelledby": "gpus" },
    element("div", { class: "head" }, element("h2", { id: "gpus" }, "GPUs")),
    products.node,
    nodes.node,
  );
  bySpec.hidden = gpus.hidden = isBound();
  return element(
    "div",
    {},
    element("div", { class: "head" }, element("h1", {}, "Overview")),
    totals,
    offers,
    bySpec,
    gpus,
    element(
      "section",
      { "aria-labelledby": "failed" },
      element("div", { class: "head" }, element("h2", { id: "failed" }, "Failed units")),
      failed.node,
      more,
    ),
  );
}

function totalsOf(health) {
  const tile = (word, value, kind) =>
    element("div", { "data-kind": kind }, element("dt", {}, word), element("dd", {}, value));
  const away = health.nodeCount - health.readyNodeCount;
  return [
    tile("active units", String(health.activeUnitCount)),
    tile("stock, ready to claim", `${health.readyStockCount} of ${health.stockUnitCount}`),
    tile("nodes ready", `${health.readyNodeCount} of ${health.nodeCount}`, away ? "bad" : null),
    tile("GPUs free", `${health.totalGPUFree ?? "?"} of ${health.totalGPUAllocatable}`),
    tile("GPUs of stock", String(health.totalGPUHeldByStock ?? "?")),
    tile("GPUs of units", String(health.totalGPUHeldByUnits ?? "?")),
    tile("GPUs of others", String(health.totalGPUHeldByOthers ?? "?")),
    tile("queue of functions", health.queueConnected ? "connected" : "off"),
  ];
}

function flavourTable() {
  const text = (label, read) => ({ label, cell: (flavour) => String(read(flavour)) });
  return new LiveTable({
    label: "Flavours",
    keyOf: (flavour) => flavour.specName,
    nothing: "There is no flavour yet: a pool makes one.",
    columns: [
      { label: "Spec", class: "narrow", cell: (flavour) => flavour.specName },
      text("CPU", (flavour) => flavour.cpu || "default"),
      text("Memory", (flavour) => flavour.memory || "default"),
      { ...text("GPUs", (flavour) => flavour.gpu), class: "number" },
      text("Product", (flavour) => flavour.gpuProduct || "any"),
      text("Ready now", (flavour) => (flavour.full ? "full" : flavour.available)),
    ],
  });
}

function gpuTable(label, first, nameOf) {
  const number = (word, member) => ({
    label: word,
    class: "number",
    cell: (each) => String(each[member] ?? "?"),
  });
  return new LiveTable({
    label,
    keyOf: nameOf,
    nothing: "No node has a GPU.",
    columns: [
      { label: first, class: "narrow", cell: nameOf },
      number("Capacity", "gpuCapacity"),
      number("Allocatable", "gpuAllocatable"),
      number("Stock", "gpuHeldByStock"),
      number("Units", "gpuHeldByUnits"),
      number("Others", "gpuHeldByOthers"),
      number("Free", "gpuFree"),
    ],
  });
}

function specTable() {
  const number = (label, read) => ({
    label,
    class: "number",
    cell: (spec) => String(read(spec)),
  });
  return new LiveTable({
    label: "Stock and units by spec",
    keyOf: (spec) => spec.specName,
    nothing: "There is neither stock nor a unit. Begin with a pool.",
    columns: [
      {
        label: "Spec",
        class: "narrow",
        cell: (spec) =>
          element(
            "a",
            { href: `#/units?specName=${encodeURIComponent(spec.specName)}` },
            spec.specName,
          ),
      },
      { label: "Stock", cell: (spec) => sharesBar(spec.stock) },
      number("Units", (spec) => spec.active.total),
      number("Ready", (spec) => spec.active.ready),
      number("Progressing", (spec) => spec.active.progressing),
      number("Suspended", (spec) => spec.active.suspended),
      number("Failed", (spec) => spec.active.failed),
    ],
  });
}
