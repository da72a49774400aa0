// Modal dialogs: the browser keeps focus in them; afterwards it is where it was.

import { button, element, freshId, say } from "./elements.js";

export function openDialog(title, { isWide = false } = {}) {
  const opener = document.activeElement;
  const titleId = freshId("title");
  const heading = element("h2", { id: titleId, tabindex: "-1" }, title);
  const close = button("Close", () => dialog.close(), {
    class: "plain close",
    "aria-label": `Close ${title}`,
  });
  const content = element("div", { class: "content" });
  const dialog = element(
    "dialog",
    { "aria-labelledby": titleId, class: isWide ? "wide" : "" },
    element("header", {}, heading, close),
    content,
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    const place =
      opener?.isConnected && opener !== document.body ? opener : document.getElementById("main");
    place.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  heading.focus();
  return { dialog, heading, content, close: () => dialog.close() };
}

/** What went wrong, where the eye is, and with the fields at fault. */
export function problemBox() {
  const box = element("div", { class: "problem", role: "alert", hidden: true });
  return {
    node: box,
    clear() {
      box.hidden = true;
      box.replaceChildren();
    },
    show(error) {
      const details = (error.details ?? []).map((each) =>
        element("li", {}, each.field ? `${each.field}: ${each.message}` : each.message),
      );
      box.replaceChildren(
        element("p", {}, error.message),
        ...(details.length ? [element("ul", {}, ...details)] : []),
      );
      box.hidden = false;
    },
  };
}

/**
 * A button whose action may be refused: the problem box says why. It is disabled until the action
 * has ended, and keeps the focus.
 */
export function actionButton(label, problem, act, attributes = {}) {
  async function run() {
    problem.clear();
    made.disabled = true;
    made.setAttribute("aria-busy", "true");
    try {
      await act();
    } catch (error) {
      problem.show(error);
    } finally {
      made.disabled = false;
      made.removeAttribute("aria-busy");
      if (document.activeElement === document.body) made.focus();
    }
  }
  const made = button(label, run, attributes);
  return made;
}

/** Asks before something is done that cannot be taken back. */
export function confirmDialog({ title, text, facts = [], label, isDanger = false, act, done }) {
  const { dialog, content, close } = openDialog(title);
  dialog.setAttribute("role", "alertdialog");
  const problem = problemBox();
  const textId = freshId("text");
  dialog.setAttribute("aria-describedby", textId);
  async function run() {
    await act();
    close();
    say(done);
  }
  const yes = actionButton(label, problem, run, { class: isDanger ? "danger" : "primary" });
  const no = button("Cancel", close, { class: "plain" });
  content.append(
    element("p", { id: textId }, text),
    ...(facts.length ? [factList(facts)] : []),
    problem.node,
    element("footer", {}, no, yes),
  );
  no.focus();
}

export function factList(facts) {
  const rows = facts
    .filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([word, value]) =>
      element(
        "div",
        {},
        element("dt", {}, word),
        element("dd", {}, value instanceof Node ? value : String(value)),
      ),
    );
  return element("dl", { class: "facts" }, ...rows);
}

/** A form, then what it would do, as far as it may be shown, and only then it is done. */
export function formDialog({
  title,
  intro,
  fields,
  request,
  shown = (body) => body,
  label,
  send,
  done,
}) {
  const { heading, content, close } = openDialog(title);
  const problem = problemBox();
  const inputs = new Map();
  const form = element("form", { novalidate: true });
  if (intro) form.append(element("p", { class: "muted" }, intro));
  for (const field of fields) form.append(fieldRow(field, inputs));
  form.append(
    element(
      "footer",
      {},
      button("Cancel", close, { class: "plain" }),
      element("button", { type: "submit", class: "primary" }, "Continue"),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const bad = [...inputs.values()].find(({ field, input }) => {
      const isMissing = field.isRequired && !input.value.trim();
      input.setAttribute("aria-invalid", String(isMissing || !input.validity.valid));
      return isMissing || !input.validity.valid;
    });
    problem.clear();
    if (bad) {
      problem.show({
        message: bad.input.value.trim()
          ? `${bad.field.label}: ${bad.input.validationMessage || "not valid"}`
          : `${bad.field.label} is needed`,
      });
      bad.input.focus();
      return;
    }
    let body;
    try {
      body = request(
        Object.fromEntries(
          [...inputs].map(([name, { input }]) => [
            name,
            input.type === "checkbox" ? input.checked : input.value.trim(),
          ]),
        ),
      );
    } catch (error) {
      problem.show(error);
      return;
    }
    review(body);
  });

  function edit() {
    content.replaceChildren(form, problem.node);
    inputs.values().next().value?.input.focus();
  }

  function review(body) {
    async function run() {
      const answer = await send(body);
      close();
      say(done(body, answer));
    }
    const yes = actionButton(label, problem, run, { class: "primary" });
    const facts = Object.entries(shown(body))
      .filter(([name]) => name !== "operationID")
      .map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : value]);
    const back = button("Back", () => edit(), { class: "plain" });
    content.replaceChildren(
      element("p", {}, "This will be asked for:"),
      factList(facts),
      problem.node,
      element("footer", {}, back, yes),
    );
    heading.focus();
    yes.focus();
  }

  edit();
}

function fieldRow(field, inputs) {
  const id = freshId("field");
  const hintId = field.hint ? `${id}-hint` : null;
  const shared = {
    id,
    name: field.name,
    "aria-describedby": hintId,
    autocomplete: "off",
    spellcheck: "false",
    required: field.isRequired,
  };
  let input;
  if (field.choices) {
    input = element(
      "select",
      shared,
      ...field.choices.map(([value, word]) =>
        element("option", { value, selected: value === field.value }, word),
      ),
    );
  } else if (field.isLong) {
    input = element("textarea", { ...shared, rows: "4" });
    input.value = field.value ?? "";
  } else if (field.isSwitch) {
    input = element("input", { ...shared, type: "checkbox", required: false });
  } else {
    input = element("input", {
      ...shared,
      type: field.type ?? "text",
      min: field.min,
      max: field.max,
      pattern: field.pattern,
      value: field.value,
      list: field.suggestions ? `${id}-list` : null,
    });
  }
  inputs.set(field.name, { field, input });
  const label = element(
    "label",
    { for: id },
    field.label,
    field.isRequired ? "" : element("span", { class: "muted" }, " (optional)"),
  );
  const hint = field.hint ? element("p", { id: hintId, class: "hint" }, field.hint) : "";
  const known = field.suggestions
    ? element(
        "datalist",
        { id: `${id}-list` },
        ...field.suggestions.map((value) => element("option", { value })),
      )
    : "";
  return element(
    "div",
    { class: field.isSwitch ? "field switch" : "field" },
    label,
    input,
    hint,
    known,
  );
}
