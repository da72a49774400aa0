// Ways into a unit through the gateway: each press asks the api for a ticket of its own.

import { call, pathOf } from "./api.js";
import { actionButton, factList } from "./dialogs.js";
import { button, element } from "./elements.js";

/** The ways to reach a unit, or nothing if no gateway reaches it. */
export function reachActions(unit, problem) {
  const { name, access } = unit;
  if (!access.slug) return [];
  const place = element("div", { class: "reached" });
  // A modal dialog hides the rest of the page from screen readers, also what `say` says there.
  const status = element("p", { class: "muted", role: "status" });

  async function ticket(body) {
    return (await call("POST", `/gpu-units${pathOf(name)}/tickets`, body)).data;
  }

  function opener(label, url) {
    const spoken = { "aria-label": `${label} in a new tab` };
    return actionButton(label, problem, async () => open(await url()), spoken);
  }

  const ports = Object.entries(access.urls).map(([port, url]) => [
    port,
    element(
      "span",
      { class: "port" },
      element("code", {}, url),
      opener(`Open ${port}`, async () => (await ticket({ uses: ["http"], port })).url),
    ),
  ]);
  const terminal = opener(
    "Terminal",
    async () => (await ticket({ uses: ["exec"] })).terminalURL,
  );
  const ssh = actionButton("Copy ssh command", problem, async () => {
    const given = await ticket({ uses: ["ssh"] });
    if (!given.ssh) throw new Error("the gateway has no SSH listener: see gateway.ssh");
    place.replaceChildren(...sshFacts(given, access.sshKeys, copy));
    await copy(given.ssh.command, "The command is copied.");
  });

  /** Pages without encryption have no clipboard; what is to be copied is shown beside the button. */
  async function copy(text, words) {
    if (!navigator.clipboard) return;
    await navigator.clipboard.writeText(text);
    status.textContent = words;
  }

  return [
    element("h3", {}, "Reach it"),
    factList(ports),
    element("div", { class: "reach" }, terminal, ssh),
    place,
    status,
  ];
}

function open(url) {
  window.open(url, "_blank", "noopener");
}

function sshFacts({ ticket, ssh, expiresAt }, keys, copy) {
  const parts = [element("p", {}, element("code", {}, ssh.command))];
  if (keys.length === 0) {
    const until = new Date(expiresAt).toLocaleTimeString();
    parts.push(
      element(
        "p",
        { class: "muted" },
        `The unit has no SSH keys, so a ticket is the password until ${until}. `,
        button("Copy password", () => copy(ticket, "The password is copied."), { class: "small" }),
      ),
    );
  }
  return parts;
}
