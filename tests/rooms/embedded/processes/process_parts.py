"""A sidecar and a main container as local programs that record what happens to them."""

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from gpuruntime.embedded.processes.programs import Program, Programs

SIDECAR = "example/sidecar:1"
SHARED = "/tmp/shared"
TIMES = {"periodSeconds": 1, "failureThreshold": 5}

_PROGRAM = """
    import os
    import signal
    import socket
    import sys
    import time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    name, ledger, *more = sys.argv[1:]


    def note(word):
        with open(ledger, "a") as file:
            file.write(f"{name} {word}\\n")


    def on_signal(*_):
        note("signalled")
        if "stubborn" not in more:
            os._exit(0)


    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/healthz":
                note(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass


    signal.signal(signal.SIGTERM, on_signal)
    print("hello from", name, flush=True)
    note("started")
    for each in more:
        if each.endswith(".sock"):
            meeting = socket.socket(socket.AF_UNIX)
            meeting.bind(each)
            note(f"bound {len(each)}")
    if "crash" in more:
        sys.exit("no luck")
    if "LISTEN" in os.environ:
        host, port = os.environ["LISTEN"].split(":")
        ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
    while True:
        time.sleep(60)
"""


def programs(folder: Path) -> Programs:
    script = script_in(folder)
    script.write_text(dedent(_PROGRAM))
    sidecar = Program(
        name="sidecar",
        path=sys.executable,
        arguments=(str(script),),
        address_variable="LISTEN",
    )
    return {SIDECAR: sidecar, "python": Program(name="python", path=sys.executable)}


def script_in(folder: Path) -> Path:
    return folder / "part.py"


def ledger_in(folder: Path) -> Path:
    return folder / "ledger"


def notes_in(folder: Path) -> list[str]:
    ledger = ledger_in(folder)
    return ledger.read_text().splitlines() if ledger.exists() else []


def spec(folder: Path, *more: str, **changes: Any) -> dict[str, Any]:
    """Return a Pod spec with a shared folder and a sidecar like a worker's."""
    mounts = [{"name": "shared", "mountPath": SHARED}]
    ask = {"path": "/healthz", "port": 8081}
    sidecar = {
        "name": "sidecar",
        "image": SIDECAR,
        "restartPolicy": "Always",
        "args": ["sidecar", str(ledger_in(folder))],
        "ports": [{"name": "operations", "containerPort": 8081}],
        "startupProbe": {"httpGet": ask, **TIMES},
        "readinessProbe": {"httpGet": ask, **TIMES},
        "lifecycle": {"preStop": {"httpGet": {"path": "/drain", "port": 8081}}},
        "volumeMounts": mounts,
        **changes,
    }
    main = {
        "name": "main",
        "image": "python:3.12",
        "command": ["python", str(script_in(folder)), "main", str(ledger_in(folder))],
        "args": list(more),
        "volumeMounts": mounts,
    }
    return {
        "initContainers": [sidecar],
        "containers": [main],
        "volumes": [{"name": "shared", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 20,
    }
