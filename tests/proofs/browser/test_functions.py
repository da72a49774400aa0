"""Functions in the console, on the whole product with a broker and real workers."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gpuruntime.roles.dev.dev import Dev
from tests.eventually import eventually
from tests.proofs.browser.chromium import PATIENCE_SECONDS, Browser
from tests.proofs.browser.site import press
from tests.rooms.roles.dev.test_dev import Caller, local_settings, printed

pytestmark = pytest.mark.cluster

SOURCE = """
from gpuruntime.framework.calls import Call, CallError
from gpuruntime.framework.server import serve


def refuse(call: Call) -> object:
    raise CallError("no <b>weights</b> today")


serve(refuse)
"""
STOCK = {"operationID": "stock-1", "specName": "g1.1", "gpu": 1, "replicas": 2}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    output = io.StringIO()
    dev = Dev(local_settings(), output=output)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(dev.run(), name="dev")
        await eventually(
            output.getvalue, lambda text: "console" in text, within_seconds=PATIENCE_SECONDS
        )
        yield printed(output, "api")
        await dev.drain()
        running.cancel()


async def test_a_dead_letter_is_redriven_and_then_discarded(
    address: str, browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "refuse.py"
    path.write_text(SOURCE)
    async with aiohttp.ClientSession() as session:
        caller = Caller(session, address)
        await caller.post("/operator/stock-units", STOCK)
        await caller.until("/operator/jobs/stock-1", lambda job: job["ready"] == 2)
        function = {
            "operationID": "function-1",
            "name": "refuse",
            "specName": "g1.1",
            "image": "python:3.12",
            "template": {"command": ["python", str(path)]},
            "serverless": {"requestID": "refuse", "maxAttempts": 1},
        }
        assert (await caller.post("/gpu-units", function))[0] == 201
        call = {"serverlessRequestID": "refuse", "invocationID": "call-1", "payload": 1}
        assert (await caller.post("/serverless/invocations", call))[0] == 202
        (dead,) = await caller.until("/serverless/dead-letters", bool)

        tab = await browser.open(f"{address}/console/#/functions")
        await tab.until("document.body.innerText.includes('no <b>weights</b> today')")
        await tab.until("document.body.innerText.includes('1 of 1 ready')")
        for label, confirmed in (("Redrive", "is queued again"), ("Discard", "is discarded")):
            await press(tab, f"{label} call-1")
            await tab.until("document.querySelector('dialog')?.innerText.includes('call-1')")
            await press(tab, label)
            await tab.until(f"document.getElementById('said').innerText.includes('{confirmed}')")
            gone = f"!document.querySelector('tr[data-key={dead['deadLetterID']}]')"
            await tab.until(gone)
        await caller.until("/serverless/dead-letters", lambda letters: letters == [])
        await tab.until("document.body.innerText.includes('No dead letters.')")

        for index, value in enumerate(("refuse", "call-1")):
            field = f"document.querySelectorAll('[aria-labelledby=lookup] input')[{index}]"
            await tab.evaluate(f"{field}.value = '{value}'")
        await press(tab, "Look up")
        await tab.until("document.querySelector('.found').innerText.includes('dead_lettered')")
        assert tab.faults == []
        await tab.go("about:blank")
