"""Probes and preStop hooks of containers that run as processes."""

import asyncio
from typing import Final

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.embedded.kinds.container_objects import Handler, HttpGet, Probe
from gpuruntime.embedded.processes.programs import LOOPBACK

# A probe that has not passed yet is repeated this often, because people wait for a start.
EAGER_SECONDS: Final = 0.1
_PASSING: Final = range(200, 400)


def port_asked(handler: Handler | None) -> int | str:
    """Return the port of the request, or 0 if there is none."""
    asked = (handler.httpGet or handler.tcpSocket) if handler else None
    return asked.port if asked else 0


async def problem(handler: Handler, port: int, *, within_seconds: float) -> str:
    """Return why the request failed, or an empty text; `port` is the real port.

    Without a request it passes.
    """
    try:
        async with asyncio.timeout(within_seconds):
            if handler.httpGet is not None:
                return await _status_of(handler.httpGet, port)
            if handler.tcpSocket is not None:
                _, writer = await asyncio.open_connection(LOOPBACK, port)
                writer.close()
    except TimeoutError:
        return f"no answer within {within_seconds:g} s"
    except (OSError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


async def wait_until_failed(probe: Probe, port: int) -> str:
    """Return why the probe failed, once it has failed for its whole threshold."""
    patience = _patience(probe)
    passed_at = loop_time()
    while True:
        why = await problem(probe, port, within_seconds=probe.timeoutSeconds)
        if not why:
            passed_at = loop_time()
        elif loop_time() - passed_at >= patience:
            return why
        await asyncio.sleep(probe.periodSeconds)


async def wait_until_passed(probe: Probe, port: int) -> str:
    """Return an empty text once the probe passes, or why it failed for its whole threshold."""
    due_at = loop_time() + _patience(probe)
    while why := await problem(probe, port, within_seconds=probe.timeoutSeconds):
        if loop_time() >= due_at:
            return why
        await asyncio.sleep(EAGER_SECONDS)
    return ""


def _patience(probe: Probe) -> float:
    return float(probe.failureThreshold * probe.periodSeconds)


async def _status_of(asked: HttpGet, port: int) -> str:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        head = f"GET {asked.path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        words = (await reader.readline()).split()
        status = int(words[1]) if len(words) > 1 else 0
    finally:
        writer.close()
    return "" if status in _PASSING else f"HTTP status {status}"
