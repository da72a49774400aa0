// The console: which place is shown, who looks, and how it stands with the api.

import { openDialog } from "./dialogs.js";
import { element, freshId, say } from "./elements.js";
import { functionsPlace } from "./functions.js";
import { keepAges } from "./moments.js";
import { overviewPlace } from "./overview.js";
import { poolsPlace } from "./pools.js";
import { keepToken, token } from "./session.js";
import { secretsPlace } from "./secrets.js";
import { stockPlace } from "./stock.js";
import { storagesPlace } from "./storages.js";
import { Stream } from "./stream.js";
import { unitsPlace } from "./units.js";

const PLACES = {
  overview: overviewPlace,
  units: unitsPlace,
  stock: stockPlace,
  pools: poolsPlace,
  storages: storagesPlace,
  secrets: secretsPlace,
  functions: functionsPlace,
};
const TITLES = {
  overview: "Overview",
  units: "Units",
  stock: "Stock",
  pools: "Pools",
  storages: "Storages",
  secrets: "Secrets",
  functions: "Functions",
};

class Console {
  constructor() {
    this.stream = null;
    this.polls = [];
    this.fleet = null;
    this.heedsFleet = null;
    // A tenant has no part in the counts of the fleet.
    this.isBound = false;
    this.isAsking = false;
    this.view = document.getElementById("view");
    this.notice = document.getElementById("notice");
    this.leave = document.getElementById("leave");
    this.leave.addEventListener("click", () => (token() ? this.signOut() : this.askForToken()));
    document.addEventListener("signedout", () => this.askForToken());
    window.addEventListener("hashchange", () => this.show(true));
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    });
  }

  show(isTurned = false) {
    this.stop();
    const [path, asked] = location.hash.replace(/^#\/?/, "").split("?");
    const name = Object.hasOwn(PLACES, path) ? path : "overview";
    for (const link of document.querySelectorAll("#places a")) {
      if (link.dataset.place === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${TITLES[name]} – gpuruntime console`;
    this.leave.hidden = !token();
    this.leave.textContent = "Sign out";
    const place = PLACES[name]({
      query: new URLSearchParams(asked ?? ""),
      watch: (stream, query, heed) => this.watch(stream, query, heed),
      poll: (look, every) => this.poll(look, every),
      heedFleet: (heed) => this.heedFleet(heed),
      specNames: () => (this.fleet ? this.fleet.specs.map((spec) => spec.specName) : []),
      isBound: () => this.isBound,
    });
    this.view.replaceChildren(place);
    if (isTurned) {
      document.getElementById("main").focus();
      window.scrollTo(0, 0);
      say(TITLES[name]);
    }
  }

  stop() {
    this.stream?.stop();
    this.stream = null;
    for (const timer of this.polls) clearInterval(timer);
    this.polls = [];
    this.heedsFleet = null;
  }

  watch(name, query, heed) {
    this.stream?.stop();
    const asked = new URLSearchParams(query);
    if (name !== "fleet" && !this.isBound) asked.set("fleet", "true");
    if (name === "fleet" && this.isBound) {
      this.tell("live", "Asked for", "");
      return;
    }
    const path = `events/${name}${asked.size ? `?${asked}` : ""}`;
    this.stream = new Stream(path, {
      onEvent: (event, data) => {
        if (event === "fleet") this.tellFleet(data);
        else heed(event, data);
      },
      onState: ({ state, error }) => this.stand(state, error),
    });
  }

  heedFleet(heed) {
    this.heedsFleet = heed;
    if (this.fleet) heed(this.fleet);
  }

  tellFleet(fleet) {
    this.fleet = fleet;
    this.heedsFleet?.(fleet);
  }

  /** What is asked again and again, while somebody looks. */
  poll(look, every) {
    let isAsking = false;
    const once = async () => {
      if (document.hidden || isAsking) return;
      isAsking = true;
      try {
        await look();
      } catch {
        // The stream tells how it stands; the next look may do better.
      } finally {
        isAsking = false;
      }
    };
    this.polls.push(setInterval(once, every));
    once();
  }

  stand(state, error) {
    if (state === "refused" && error.status === 403 && !this.isBound) {
      this.isBound = true;
      this.fleet = null;
      this.show();
      return;
    }
    if (state === "refused" && error.status === 401) {
      this.askForToken();
      return;
    }
    if (state === "refused") this.tell("lost", "Not shown", error.message);
    else if (state === "lost")
      this.tell(
        "lost",
        "Not live",
        `Not connected: ${error.message || "the stream ended"}. What is shown may be old; it is tried again.`,
      );
    else this.tell("live", "Live", "");
  }

  tell(state, word, notice) {
    const connection = document.getElementById("connection");
    if (connection.textContent !== word) connection.textContent = word;
    connection.dataset.state = state;
    if (this.notice.textContent !== notice) this.notice.textContent = notice;
    this.notice.hidden = !notice;
  }

  askForToken() {
    if (this.isAsking) return;
    this.isAsking = true;
    this.stop();
    const wasGiven = Boolean(token());
    keepToken("");
    this.view.replaceChildren();
    this.tell("lost", "Signed out", "");
    this.leave.textContent = "Sign in";
    this.leave.hidden = false;
    const { dialog, content, close } = openDialog("Sign in");
    const id = freshId("token");
    const field = element("input", {
      id,
      type: "password",
      required: true,
      autocomplete: "off",
      spellcheck: "false",
    });
    const words = wasGiven ? "The api does not know this token." : "The api asks who calls.";
    const form = element(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          keepToken(field.value.trim());
          this.isBound = false;
          close();
        },
      },
      element("p", {}, `${words} The token is kept in this tab, until it is closed.`),
      element("div", { class: "field" }, element("label", { for: id }, "Token"), field),
      element("footer", {}, element("button", { type: "submit", class: "primary" }, "Sign in")),
    );
    content.append(form);
    dialog.addEventListener("close", () => {
      this.isAsking = false;
      if (token()) this.show();
      else this.leave.focus();
    });
    field.focus();
  }

  signOut() {
    keepToken("");
    this.fleet = null;
    this.isBound = false;
    this.view.replaceChildren();
    this.show();
  }
}

const page = new Console();
keepAges();
page.show();
