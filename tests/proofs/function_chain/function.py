"""A function with countable side effects: each start of an attempt is a line of a ledger.

As a program it is `function.py LEDGER`. The payload says what a call should do.
"""

import asyncio
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from gpuruntime.framework.calls import Call, CallError
from gpuruntime.framework.server import serve


def demanded(payload: Any) -> dict[str, Any]:
    """Return the only correct answer to a payload."""
    text = str(payload["text"])
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"twice": 2 * payload["number"], "digest": digest, "long": "ü" * payload["long"]}


class Ledger:
    """Append a line in one write, since many processes append to the file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def handle(self, call: Call) -> object:
        line = f"{call.invocationID} {call.attempt} {call.workerName} {time.time():.3f}\n"
        os.write(self._file, line.encode())
        await asyncio.sleep(call.payload["seconds"])
        if call.attempt <= call.payload["failures"]:
            raise CallError("bad luck")
        return demanded(call.payload)


if __name__ == "__main__":
    serve(Ledger(Path(sys.argv[1])).handle)
