// A place with one live list: its filters, its pages and its table.

import { button, element, freshId } from "./elements.js";
import { LiveTable } from "./table.js";

/**
 * `watch(stream, query, heed)` follows a stream for as long as the place is shown; `filters` are fields
 * whose values are kept in the address, so that a list can be handed on as a link.
 */
export class LiveList {
  constructor({ stream, query, filters = [], table, watch, actions = [], title, intro }) {
    this.stream = stream;
    this.query = query;
    this.table = new LiveTable(table);
    this.watch = watch;
    this.cursors = [""];
    this.next = "";
    this.before = button("Previous", () => this.turn(-1), { class: "plain", disabled: true });
    this.after = button("Next", () => this.turn(+1), { class: "plain", disabled: true });
    this.count = element("span", { class: "muted" });
    this.node = element(
      "section",
      { "aria-labelledby": "title" },
      element(
        "div",
        { class: "head" },
        element("h1", { id: "title" }, title),
        element("div", { class: "actions" }, ...actions),
      ),
      intro ? element("p", { class: "intro muted" }, intro) : "",
      filters.length
        ? element(
            "form",
            {
              class: "filters",
              role: "search",
              "aria-label": `Filter ${title}`,
              onsubmit: (event) => event.preventDefault(),
            },
            ...filters.map((each) => this.filter(each)),
          )
        : "",
      this.table.node,
      element(
        "nav",
        { class: "pager", "aria-label": `Pages of ${title}` },
        this.before,
        this.count,
        this.after,
      ),
    );
    this.follow();
  }

  filter({ name, label, choices, suggestions }) {
    const id = freshId("filter");
    const value = this.query.get(name) ?? "";
    const changed = (event) => this.narrow(name, event.target.value.trim());
    const shared = { id, onchange: changed, autocomplete: "off", spellcheck: "false" };
    const field = choices
      ? element(
          "select",
          shared,
          ...choices.map((choice) =>
            element("option", { value: choice, selected: choice === value }, choice || "any"),
          ),
        )
      : element("input", {
          ...shared,
          type: "search",
          value,
          placeholder: "any",
          list: suggestions ? `${id}-list` : null,
        });
    const known = suggestions
      ? element(
          "datalist",
          { id: `${id}-list` },
          ...suggestions().map((each) => element("option", { value: each })),
        )
      : "";
    return element("div", { class: "filter" }, element("label", { for: id }, label), field, known);
  }

  narrow(name, value) {
    if (value) this.query.set(name, value);
    else this.query.delete(name);
    const place = location.hash.split("?")[0];
    history.replaceState(null, "", this.query.size ? `${place}?${this.query}` : place);
    this.cursors = [""];
    this.follow();
  }

  turn(step) {
    if (step > 0) this.cursors.push(this.next);
    else this.cursors.pop();
    this.follow();
    this.table.node.scrollIntoView({ block: "nearest" });
  }

  follow() {
    const asked = new URLSearchParams(this.query);
    const cursor = this.cursors.at(-1);
    if (cursor) asked.set("cursor", cursor);
    this.watch(this.stream, asked, (name, data) => this.heed(name, data));
  }

  heed(name, data) {
    if (name !== "page" && name !== "change") return;
    if (data.names.length === 0 && this.cursors.length > 1) {
      this.turn(-1);
      return;
    }
    this.table.change(data.put, data.names);
    this.next = data.next;
    const page = this.cursors.length;
    setDisabled(this.before, page === 1);
    setDisabled(this.after, !data.next);
    this.count.textContent =
      page === 1 && !data.next
        ? `${data.names.length} shown`
        : `Page ${page}, ${data.names.length} shown`;
  }
}

/** Focus does not fall off a button that has nothing more to do. */
function setDisabled(control, isDisabled) {
  if (isDisabled && document.activeElement === control) {
    control.closest("section").querySelector(".table").focus();
  }
  control.disabled = isDisabled;
}
