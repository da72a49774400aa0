// Ways into a unit through the gateway: each press asks the api for a ticket of its own.

import { call, pathOf } from "./api.js";
import { button, element, say } from "./elements.js";

/** The ways to reach a unit, or nothing if no gateway reaches it. */
export function reachActions(unit, problem) {
  const { name, access } = unit;
  if (!access.slug) return [];
  const place = element("div", { class: "reached" });

  function action(label, use) {
    const made = button(label, async () => {
      problem.clear();
      made.disabled = true;
      try {
        await use();
      } catch (error) {
        problem.show(error);
      } finally {
        made.disabled = false;
      }
    });
    return made;
  }

  async function ticket(body) {
    return (await call("POST", `/gpu-units${pathOf(name)}/tickets`, body)).data;
  }

  const ports = Object.keys(access.urls).map((port) =>
    action(`Open ${port}`, async () => {
      open((await ticket({ uses: ["http"], port })).url);
    }),
  );
  const terminal = action("Terminal", async () => {
    open((await ticket({ uses: ["exec"] })).terminalURL);
  });
  const ssh = action("Copy ssh command", async () => {
    const given = await ticket({ uses: ["ssh"] });
    if (!given.ssh) throw new Error("the gateway has no SSH listener: see gateway.ssh");
    place.replaceChildren(...sshFacts(given, access.sshKeys));
    await copy(given.ssh.command, "The command is copied.");
  });
  return [
    element("h3", {}, "Reach it"),
    element("div", { class: "reach" }, ...ports, terminal, ssh),
    place,
  ];
}

function open(url) {
  window.open(url, "_blank", "noopener");
}

function sshFacts({ ticket, ssh, expiresAt }, keys) {
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

/** Pages without encryption have no clipboard; what is to be copied is shown beside the button. */
async function copy(text, words) {
  if (!navigator.clipboard) return;
  await navigator.clipboard.writeText(text);
  say(words);
}
