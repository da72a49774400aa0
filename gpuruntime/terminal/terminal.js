// The terminal of a unit: xterm.js before one exec session of this origin.

import { FitAddon } from "./vendored/addon-fit.mjs";

const PROTOCOL = "v5.channel.k8s.io";
const [INPUT, OUTPUT, ERRORS, STATUS, SIZE] = [0, 1, 2, 3, 4];
// The gateway takes no longer message.
const PIECE_BYTES = 32 * 1024;
const WORDS = {
  4403: "Open the terminal again from the console.",
  4408: "The session was idle.",
};

const state = document.getElementById("state");
const again = document.getElementById("again");
const place = document.getElementById("terminal");
const unit = location.hostname.split(".")[0].replace(/^terminal--/, "").replace(/-[a-z2-7]{8}$/, "");
const encoder = new TextEncoder();
let socket = null;
let status = null;

// xterm.js writes its styles into elements, which the policy allows with the page's nonce alone.
const { nonce } = document.querySelector("script[nonce]");
const create = document.createElement.bind(document);
document.createElement = (name, options) => {
  const element = create(name, options);
  if (name === "style") element.nonce = nonce;
  return element;
};
const { Terminal } = await import("./vendored/xterm.mjs");

const dark = matchMedia("(prefers-color-scheme: dark)");
const terminal = new Terminal({ cursorBlink: true, scrollback: 5000, theme: theme() });
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.open(place);

terminal.onData((text) => sendInput(encoder.encode(text)));
terminal.onBinary((text) => sendInput(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
terminal.onResize(sendSize);
terminal.onTitleChange((title) => show(title));
dark.addEventListener("change", () => (terminal.options.theme = theme()));
new ResizeObserver(() => fit.fit()).observe(place);
again.addEventListener("click", connect);

document.getElementById("unit").textContent = unit;
show("");
fit.fit();
connect();

function theme() {
  return dark.matches
    ? { background: "#0f1317", foreground: "#e5e9ee", cursor: "#e5e9ee", selectionBackground: "#33506e" }
    : { background: "#ffffff", foreground: "#15191e", cursor: "#15191e", selectionBackground: "#b9d7f5" };
}

function show(title) {
  document.title = title ? `${title}: ${unit}` : `${unit}: terminal`;
}

function connect() {
  if (socket !== null) return;
  again.hidden = true;
  status = null;
  say("Connecting…");
  const query = new URLSearchParams({ tty: "true", columns: terminal.cols, rows: terminal.rows });
  socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/exec?${query}`, PROTOCOL);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("open", () => {
    say("Connected");
    terminal.focus();
    sendSize(terminal);
  });
  socket.addEventListener("message", (event) => receive(new Uint8Array(event.data)));
  socket.addEventListener("close", (event) => end(event));
}

function receive(message) {
  const data = message.subarray(1);
  if (message[0] === STATUS && data.length) status = JSON.parse(new TextDecoder().decode(data));
  else if (message[0] === OUTPUT || message[0] === ERRORS) terminal.write(data);
}

function send(channel, data) {
  if (socket?.readyState !== WebSocket.OPEN) return;
  const message = new Uint8Array(data.length + 1);
  message[0] = channel;
  message.set(data, 1);
  socket.send(message);
}

function sendInput(data) {
  for (let start = 0; start < data.length; start += PIECE_BYTES) {
    send(INPUT, data.subarray(start, start + PIECE_BYTES));
  }
}

function sendSize({ cols, rows }) {
  send(SIZE, encoder.encode(JSON.stringify({ Width: cols, Height: rows })));
}

async function end(event) {
  const words = ending() ?? (event.reason || (await refusal()));
  socket = null;
  say([words, WORDS[event.code]].filter(Boolean).join(". "));
  again.hidden = false;
  again.focus();
}

// What the command itself said, or null if it was cut off.
function ending() {
  if (status === null) return null;
  const code = status.details?.causes?.find((cause) => cause.reason === "ExitCode")?.message;
  if (status.status === "Success" || code) return `The shell has ended with exit code ${code ?? 0}`;
  return status.message ?? "The shell could not be started";
}

// A browser hides why a WebSocket was refused, so the same address is asked without one.
async function refusal() {
  try {
    const answer = await fetch("/exec?tty=true");
    const { error } = await answer.json();
    return answer.status === 400 ? "The connection was lost" : error.message;
  } catch {
    return "The gateway cannot be reached";
  }
}

function say(words) {
  state.textContent = words;
}
