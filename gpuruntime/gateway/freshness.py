"""How long the mirror of units may have missed a revocation.

A watch may be silent for a minute, or come from a server that has lost its own cluster. So the
window is short, and a consistent read of one unit is made beside it. Both have to answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.models.kinds.units import GPU_UNITS

PROBE_SECONDS: Final = 20.0
# A window ends and opens again within this time, so that a quiet watch shows that it lives.
WINDOW_SECONDS: Final = (20, 25)

log = structlog.get_logger()


class Freshness:
    def __init__(self, client: Client, namespace: str, watch_silence: Callable[[], float]) -> None:
        """`watch_silence` returns for how many seconds the watch has brought no sign of life."""
        self._client = client
        self._namespace = namespace
        self._watch_silence = watch_silence
        self._probed_at = float("-inf")

    def age_seconds(self) -> float:
        """Return the age of what the mirror has; it is infinite before the first answers."""
        return max(loop_time() - self._probed_at, self._watch_silence())

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            began_at = loop_time()
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._client.list_page(GPU_UNITS, namespace=self._namespace, limit=1)
            except (KubeError, TimeoutError) as error:
                log.info("probe of the cluster failed", error=str(error))
            else:
                self._probed_at = began_at
            await asyncio.sleep(max(0.0, began_at + PROBE_SECONDS - loop_time()))
