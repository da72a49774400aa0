"""The site that a unit of a test serves, a program of the standard library alone.

It is run as `python -c SOURCE PORT NAME`. Its answers carry headers that would open it to other
units, and it reports every request that it received.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEEN: list[dict[str, str]] = []
NAME = sys.argv[2]
# Answers the requests of its origin itself, but for those to /direct.
WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", event => event.waitUntil(clients.claim()));
self.addEventListener("fetch", event => {
  const name = new URL(event.request.url).pathname;
  if (name !== "/direct") event.respondWith(new Response("<title>taken by NAME</title>",
    {headers: {"Content-Type": "text/html"}}));
});
""".replace("NAME", NAME)


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind, text = "text/html", f"<!doctype html><title>{NAME}</title><p>secret of {NAME}"
        if self.path == "/seen":
            kind, text = "application/json", json.dumps(SEEN)
        elif self.path == "/worker.js":
            kind, text = "text/javascript", WORKER
        self.answer(kind, text)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer("text/plain", "done")

    do_PUT = do_DELETE = do_OPTIONS = do_POST

    def answer(self, kind: str, text: str) -> None:
        if self.path != "/seen":
            cookie = self.headers.get("Cookie", "")
            SEEN.append({"method": self.command, "path": self.path, "cookie": cookie})
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        # What would open a unit to its siblings, if the gateway let it pass.
        self.send_header("Access-Control-Allow-Origin", self.headers.get("Origin", "*"))
        self.send_header("Access-Control-Allow-Credentials", "true")
        self.send_header("Service-Worker-Allowed", "/")
        self.send_header("Origin-Agent-Cluster", "?0")
        self.send_header("Set-Cookie", f"of={NAME}; Domain=units.example.com; Path=/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing: the log of the unit is no part of the proof."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Site).serve_forever()
