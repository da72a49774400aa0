// A table whose rows live: only what is another is touched, so that focus and place stay.

import { element } from "./elements.js";

/**
 * A column has a `label` and `cell(item)`; with `isFixed` its cell is made once for a row, and
 * gets a function that gives the row's item as it is then.
 */
export class LiveTable {
  constructor({ label, columns, nothing, keyOf = (item) => item.name }) {
    this.columns = columns;
    this.nothing = nothing;
    this.keyOf = keyOf;
    this.rows = new Map();
    this.body = element("tbody", { role: "rowgroup" });
    const heads = columns.map((column) =>
      element(
        "th",
        { scope: "col", role: "columnheader", class: column.class ?? "" },
        column.isQuiet ? element("span", { class: "said" }, column.label) : column.label,
      ),
    );
    this.table = element(
      "table",
      { role: "table", "aria-label": label, "aria-busy": "true" },
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads)),
      this.body,
    );
    this.empty = element("p", { class: "empty" }, "Loading…");
    this.node = element("div", { class: "table", tabindex: "-1" }, this.table, this.empty);
  }

  get items() {
    return [...this.rows.values()].map((row) => row.item);
  }

  /** Changed items and the keys of all, in order. */
  change(put, keys) {
    this.table.setAttribute("aria-busy", "false");
    for (const item of put) this.put(item);
    const wanted = new Set(keys);
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) this.remove(key, row);
    }
    this.order(keys);
    this.empty.hidden = keys.length > 0;
    this.empty.textContent = this.nothing;
    this.table.hidden = keys.length === 0;
  }

  show(items) {
    this.change(items, items.map(this.keyOf));
  }

  put(item) {
    const key = this.keyOf(item);
    const row = this.rows.get(key);
    if (row) {
      row.item = item;
    } else {
      this.add(key, item);
    }
    this.fill(this.rows.get(key));
  }

  add(key, item) {
    const row = { item, cells: [] };
    row.node = element("tr", { role: "row", "data-key": key });
    for (const column of this.columns) {
      const cell = element("td", {
        role: "cell",
        "data-label": column.isQuiet ? "" : column.label,
        class: column.class ?? "",
      });
      if (column.isFixed) cell.append(column.cell(() => row.item));
      row.cells.push(cell);
    }
    row.node.append(...row.cells);
    this.rows.set(key, row);
  }

  fill(row) {
    this.columns.forEach((column, index) => {
      const cell = row.cells[index];
      if (!column.isFixed) cell.replaceChildren(...[column.cell(row.item)].flat().filter(Boolean));
      cell.toggleAttribute("data-blank", cell.textContent === "–");
    });
    row.node.dataset.phase = row.item.phase ?? "";
  }

  remove(key, row) {
    const hadFocus = row.node.contains(document.activeElement);
    this.rows.delete(key);
    row.node.remove();
    if (hadFocus) this.node.focus();
  }

  /** Moves what stands wrong, and nothing else. */
  order(keys) {
    let place = this.body.firstElementChild;
    const sorted = new Map();
    for (const key of keys) {
      const row = this.rows.get(key);
      if (!row) continue;
      sorted.set(key, row);
      if (row.node === place) place = place.nextElementSibling;
      else this.body.insertBefore(row.node, place);
    }
    this.rows = sorted;
  }
}
