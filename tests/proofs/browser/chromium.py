"""A headless browser, controlled through the protocol of its developer tools."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs

from tests.eventually import equals, eventually

# Failures alone wait that long; a busy machine of two processors needs a third of it.
PATIENCE_SECONDS = 60.0
# Root cannot use the browser's sandbox, and it opens only our own pages.
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-port=0",
)
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
TEXTS = {"Enter": "\r", " ": " "}


class BrowserError(Exception):
    """The browser or its page failed to do what a test requested."""


@attrs.define
class Tab:
    """A browser tab; `faults` are the errors that its page logged."""

    _browser: "Browser"
    _session: str
    faults: list[str] = attrs.field(factory=list)

    async def send(self, method: str, **params: Any) -> Any:
        return await self._browser.send(method, session=self._session, **params)

    async def go(self, url: str) -> None:
        await self.send("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        answer = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if fault := answer.get("exceptionDetails"):
            raise BrowserError(f"{expression}: {json.dumps(fault)[:500]}")
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until the expression is true; errors while a page loads count as false."""
        await self.value(f"!!({expression})")

    async def value(self, expression: str) -> Any:
        """Return the expression's first true value, which JSON can express."""
        try:
            return await eventually(
                lambda: self.evaluate(expression),
                within_seconds=PATIENCE_SECONDS,
                poll_seconds=0.05,
                despite=BrowserError,
            )
        except AssertionError as error:
            words = await self.evaluate("document.body?.innerText.slice(0, 2000)")
            raise BrowserError(f"it never came to {expression}: {words}") from error

    async def equals(self, expression: str, wanted: object) -> None:
        """Wait until the expression has this value, and report the last one if it never has."""
        await eventually(
            lambda: self.evaluate(expression),
            equals(wanted),
            within_seconds=PATIENCE_SECONDS,
            poll_seconds=0.05,
            despite=BrowserError,
            explain=lambda: f"{expression} is not {wanted!r}",
        )

    async def focus(self, selector: str) -> None:
        """Focus the first element that matches, once there is one."""
        await self.until(f"(e => e && (e.focus(), true))(document.querySelector('{selector}'))")

    @asynccontextmanager
    async def working_less_than(self, seconds: float) -> AsyncIterator[None]:
        """Fail if the page takes more processor time; other programs do not count."""
        await self.send("Performance.enable", timeDomain="threadTicks")
        before = await self._worked()
        yield
        worked = await self._worked() - before
        if worked > seconds:
            raise BrowserError(f"the page worked for {worked:.3f} s, allowed are {seconds:g}")

    async def _worked(self) -> float:
        metrics = (await self.send("Performance.getMetrics"))["metrics"]
        return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")

    async def press(self, key: str, *, is_shifted: bool = False) -> None:
        shared = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": KEYS[key],
            "modifiers": 8 if is_shifted else 0,
        }
        text = {"text": TEXTS[key]} if key in TEXTS else {}
        await self.send("Input.dispatchKeyEvent", type="keyDown", **shared, **text)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    async def type(self, text: str) -> None:
        await self.send("Input.insertText", text=text)

    async def look(self, width: int, height: int, *, scheme: str = "light") -> None:
        """Set the size of the window and the user's colour scheme."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        await self.prefer(scheme=scheme)

    async def prefer(self, *, scheme: str = "light", motion: str = "no-preference") -> None:
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        await self.send("Emulation.setEmulatedMedia", features=features)


class Browser:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._tabs: dict[str, Tab] = {}

    async def open(self, url: str = "about:blank") -> Tab:
        target = (await self.send("Target.createTarget", url="about:blank"))["targetId"]
        tab = await self._attached(target)
        if url != "about:blank":
            await tab.go(url)
        return tab

    async def popup(self, url: str) -> Tab:
        """Return the tab that a page has opened at the URL."""

        async def targets() -> list[str]:
            found = (await self.send("Target.getTargets"))["targetInfos"]
            return [each["targetId"] for each in found if each["url"] == url]

        (target,) = await eventually(targets, within_seconds=PATIENCE_SECONDS)
        return await self._attached(target)

    async def _attached(self, target: str) -> Tab:
        attached = await self.send("Target.attachToTarget", targetId=target, flatten=True)
        tab = self._tabs[attached["sessionId"]] = Tab(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            await tab.send(f"{domain}.enable")
        return tab

    async def send(self, method: str, *, session: str = "", **params: Any) -> Any:
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        to = {"sessionId": session} if session else {}
        await self._socket.send_json({"id": number, "method": method, "params": params, **to})
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await answer
        finally:
            del self._asked[number]

    async def receive(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            asked = self._asked.get(told.get("id", 0))
            if asked is None:
                self._record_fault(told)
            elif "error" in told:
                asked.set_exception(BrowserError(str(told["error"])))
            else:
                asked.set_result(told["result"])

    def _record_fault(self, told: Any) -> None:
        tab, params = self._tabs.get(told.get("sessionId", "")), told.get("params", {})
        if tab is None:
            return
        match told["method"]:
            case "Runtime.exceptionThrown":
                tab.faults.append(json.dumps(params["exceptionDetails"])[:500])
            case "Log.entryAdded" if params["entry"]["source"] != "network":
                # Requests that the api refuses are left out, because the page shows them.
                tab.faults.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")


@asynccontextmanager
async def browsing(program: Path, folder: Path, *options: str) -> AsyncIterator[Browser]:
    process = await asyncio.create_subprocess_exec(
        program,
        *OPTIONS,
        *options,
        f"--user-data-dir={folder}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        url = await _address(folder / "DevToolsActivePort", process)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, max_msg_size=0) as socket,
            asyncio.TaskGroup() as tasks,
        ):
            browser = Browser(socket)
            receiving = tasks.create_task(browser.receive(), name="receive from the browser")
            yield browser
            receiving.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _address(path: Path, process: asyncio.subprocess.Process) -> str:
    lines = await eventually(
        lambda: _lines(path),
        lambda lines: len(lines) == 2 or process.returncode is not None,
        within_seconds=PATIENCE_SECONDS,
    )
    if process.returncode is not None:
        raise BrowserError(f"the browser ended with {process.returncode}")
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.is_file() else []
