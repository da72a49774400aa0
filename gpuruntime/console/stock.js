// Units that hold an envelope for whoever comes.

import { LiveList } from "./lists.js";
import { badge, element } from "./elements.js";
import { age } from "./moments.js";
import { timelineBar } from "./timeline.js";
import { PHASES, envelope, stateCell } from "./units.js";

function stockCell(unit) {
  return unit.stock === "claimed" ? badge("Claimed", "still") : stateCell(unit);
}

export function stockPlace({ query, watch, specNames }) {
  const list = new LiveList({
    title: "Stock",
    intro:
      "Units that hold their envelope and serve nobody yet. They come and go with their pool.",
    stream: "stock",
    query,
    watch,
    filters: [
      { name: "phase", label: "Phase", choices: PHASES },
      { name: "specName", label: "Spec", suggestions: specNames },
    ],
    table: {
      label: "Stock units",
      nothing: "No stock is like this. A pool makes some.",
      columns: [
        { label: "Name", class: "narrow", cell: (unit) => element("strong", {}, unit.name) },
        { label: "State", cell: stockCell },
        { label: "Spec", cell: (unit) => unit.specName },
        {
          label: "Envelope",
          class: "narrow",
          cell: (unit) => envelope(unit) || "–",
        },
        { label: "Timeline", class: "short", cell: timelineBar },
        {
          label: "Node",
          class: "narrow",
          cell: (unit) => unit.nodeName || "–",
        },
        { label: "Age", class: "short number", cell: (unit) => age(unit.createdAt) },
      ],
    },
  });
  return list.node;
}
