// Secrets: their names alone. What is in one is sent once, and nothing can show it again.

import { call, pathOf } from "./api.js";
import { confirmDialog, formDialog } from "./dialogs.js";
import { button, element, freshId, rowButton } from "./elements.js";
import { age } from "./moments.js";
import { LiveTable } from "./table.js";

const EVERY_MS = 15_000;
const NAME = { isRequired: true, pattern: "[a-z0-9]([\\-a-z0-9]*[a-z0-9])?" };
const HIDDEN = "not shown";

export function secretsPlace({ query, watch, poll }) {
  const tenant = query.get("tenant") ?? "";
  const table = secretTable(() => look());
  const trouble = element("p", { class: "notice", hidden: true });

  async function look() {
    try {
      const asked = new URLSearchParams({ limit: 200 });
      if (tenant) asked.set("tenant", tenant);
      const { data } = await call("GET", `/secrets?${asked}`);
      table.show(data);
      trouble.hidden = true;
    } catch (error) {
      if (error.status === 401) return;
      table.show([]);
      trouble.textContent = error.message;
      trouble.hidden = false;
    }
  }

  watch("fleet", new URLSearchParams(), () => {});
  poll(look, EVERY_MS);
  return element(
    "section",
    { "aria-labelledby": "title" },
    element(
      "div",
      { class: "head" },
      element("h1", { id: "title" }, "Secrets"),
      element(
        "div",
        { class: "actions" },
        button("New secret", () => createSecret(tenant, look), {
          class: "primary",
          "aria-haspopup": "dialog",
        }),
        button("New registry login", () => createLogin(tenant, look), {
          "aria-haspopup": "dialog",
        }),
      ),
    ),
    element(
      "p",
      { class: "intro muted" },
      "Values for variables and files of units, and logins to image registries. Only their names can be read.",
    ),
    tenantFilter(tenant),
    trouble,
    table.node,
  );
}

function tenantFilter(value) {
  const id = freshId("filter");
  const field = element("input", {
    id,
    type: "search",
    value,
    placeholder: "none",
    autocomplete: "off",
    spellcheck: "false",
    onchange: (event) => {
      const asked = event.target.value.trim();
      location.hash = asked ? `#/secrets?${new URLSearchParams({ tenant: asked })}` : "#/secrets";
    },
  });
  return element(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Filter Secrets",
      onsubmit: (event) => event.preventDefault(),
    },
    element("div", { class: "filter" }, element("label", { for: id }, "Tenant"), field),
  );
}

function secretTable(again) {
  return new LiveTable({
    label: "Secrets",
    nothing: "There is no secret yet.",
    columns: [
      { label: "Name", class: "narrow", cell: (secret) => element("strong", {}, secret.name) },
      { label: "Type", class: "short", cell: (secret) => secret.type },
      { label: "Tenant", class: "narrow", cell: (secret) => secret.tenant || "–" },
      { label: "Changed", class: "short number", cell: (secret) => age(secret.updatedAt) },
      {
        label: "Actions",
        isQuiet: true,
        isFixed: true,
        class: "acts",
        cell: (now) =>
          element(
            "span",
            { class: "actions" },
            rowButton("Delete", `secret ${now().name}`, () => deleteSecret(now(), again)),
          ),
      },
    ],
  });
}

function createSecret(tenant, again) {
  formDialog({
    title: "New secret",
    intro: "A name that exists gets this value instead of all it has.",
    label: "Store secret",
    fields: [
      { name: "name", label: "Name", ...NAME },
      { name: "key", label: "Key", isRequired: true, pattern: "[\\-._a-zA-Z0-9]+" },
      { name: "value", label: "Value", isRequired: true, type: "password" },
      { name: "tenant", label: "Tenant", value: tenant },
    ],
    request: (given) => owned({ name: given.name, data: { [given.key]: given.value } }, given),
    shown: (body) => ({ ...body, data: Object.keys(body.data).map((key) => `${key}: ${HIDDEN}`) }),
    send: (body) => stored(body, again),
    done: (body) => `Secret ${body.name} is stored.`,
  });
}

function createLogin(tenant, again) {
  formDialog({
    title: "New registry login",
    intro: "Units name it under imagePullSecrets.",
    label: "Store login",
    fields: [
      { name: "name", label: "Name", ...NAME },
      { name: "server", label: "Registry", isRequired: true, hint: "Such as registry.example.com." },
      { name: "username", label: "User", isRequired: true },
      { name: "password", label: "Password", isRequired: true, type: "password" },
      { name: "tenant", label: "Tenant", value: tenant },
    ],
    request: ({ name, tenant: owner, ...registry }) =>
      owned({ name, type: "registry", registry }, { tenant: owner }),
    shown: (body) => ({ ...body, registry: { ...body.registry, password: HIDDEN } }),
    send: (body) => stored(body, again),
    done: (body) => `Secret ${body.name} is stored.`,
  });
}

function owned(body, { tenant }) {
  return tenant ? { ...body, tenant } : body;
}

async function stored(body, again) {
  const answer = await call("POST", "/secrets", body);
  again();
  return answer;
}

function deleteSecret(secret, again) {
  const of = secret.tenant ? `?${new URLSearchParams({ tenant: secret.tenant })}` : "";
  confirmDialog({
    title: `Delete secret ${secret.name}?`,
    text: "Units that run keep what they have of it. A unit that starts later and needs it waits.",
    facts: [["Tenant", secret.tenant]],
    label: "Delete secret",
    isDanger: true,
    act: async () => {
      await call("DELETE", `/secrets${pathOf(secret.name)}${of}`);
      again();
    },
    done: `Secret ${secret.name} is deleted.`,
  });
}
