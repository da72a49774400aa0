"""Run the whole product under load on a real control plane: `python -m tests.proofs.load`.

The run seeds pools, claims a part of the stock at full speed through two replicas of the api,
rests, and deletes half of the claimed units. A missed budget fails the run.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import attrs

from tests.proofs.bench.connections import Address
from tests.proofs.bench.product import address_of
from tests.proofs.bench.rows import Row
from tests.proofs.load import logs, report
from tests.proofs.load.control_plane import large_options
from tests.proofs.load.mirrors import Mirrors
from tests.proofs.load.report import MANAGER, Memory
from tests.proofs.load.sampling import ObservedProcess, StageSamples, sampled
from tests.proofs.load.stages import Size, Stages
from tests.proofs.real_cluster import binaries
from tests.proofs.real_cluster.auditing import audited, told
from tests.proofs.real_cluster.controlplane import control_plane
from tests.proofs.real_cluster.product import Installation, installation

# The final audit waits this long, so that suspicions within their allowed time can clear.
GRACES_SECONDS = 330.0


class Run:
    """A load run, which prints the rows of each stage when the stage ends."""

    def __init__(self, size: Size, made: Installation) -> None:
        self._size = size
        self._made = made
        self._product = start_product(made)
        self._mirrors = Mirrors(address_of(made.plane), made)
        apis = [Address(each.process.address) for each in self._product if each.name != MANAGER]
        self._stages = Stages(size, apis, self._mirrors, self._product)
        self._measured_stages: list[StageSamples] = []
        self.rows: dict[str, list[Row]] = {}

    async def run(self) -> None:
        before = {each.name: (await each.sample()).resident_bytes for each in self._product}
        async with sampled("seeding", self._product) as stage:
            seeded = await self._stages.seed()
        self._report(stage, report.seeding(stage, seeded, self._size))
        async with sampled("claiming", self._product) as stage:
            claimed = await self._stages.claim()
        self._report(stage, report.claiming(stage, claimed, self._size))
        async with sampled("resting", self._product, sample_seconds=inf) as stage:
            await self._stages.rest()
        memory = await self._memory(before, stage)
        self._report(stage, report.resting(stage, memory))
        async with sampled("deleting", self._product) as stage:
            deleted = await self._stages.delete()
        self._report(stage, report.deleting(stage, deleted))
        breaches = await self._stages.breaches()
        breaches += told(await audited(self._made, watch_seconds=GRACES_SECONDS))
        self._show(
            "overall", report.overall(self._measured_stages, len(breaches), self._error_count())
        )

    @property
    def missed(self) -> int:
        return sum(row.is_missed for rows in self.rows.values() for row in rows)

    @property
    def logged(self) -> dict[str, int]:
        """Return the number of log lines above info, by process, level and event."""
        return {
            f"{each.name}: {level}: {event}": count
            for each in self._product
            for (level, event), count in logs.counted(each.process.log).items()
        }

    async def _memory(self, before: Mapping[str, int], stage: StageSamples) -> list[Memory]:
        wire = {True: await self._mirrors.bytes_of_manager()}
        wire[False] = await self._mirrors.bytes_of_api()
        return [
            Memory(
                name=name,
                grown_bytes=process.samples[-1].resident_bytes - before[name],
                wire_bytes=wire[name == MANAGER],
            )
            for name, process in stage.processes.items()
        ]

    def _error_count(self) -> int:
        counts = [logs.counted(each.process.log) for each in self._product]
        return sum(
            amount
            for counted in counts
            for (level, _), amount in counted.items()
            if level in logs.ERROR_LEVELS
        )

    def _report(self, stage: StageSamples, rows: Iterable[Row]) -> None:
        self._measured_stages.append(stage)
        self._show(f"{stage.name}, {stage.seconds:.0f} s", rows)

    def _show(self, title: str, rows: Iterable[Row]) -> None:
        shown = self.rows[title] = list(rows)
        print(f"\n{title}", *shown, sep="\n", flush=True)


def start_product(made: Installation) -> tuple[ObservedProcess, ...]:
    processes = {MANAGER: made.manager(), "api 1": made.api(), "api 2": made.api()}
    for process in processes.values():
        process.wait_until_ready()
    processes[MANAGER].said("leading")
    return tuple(ObservedProcess(name, process) for name, process in processes.items())


def document_of(run: Run, size: Size) -> dict[str, Any]:
    return {
        "size": attrs.asdict(size),
        "processors": os.cpu_count(),
        "load": os.getloadavg(),
        "missed": run.missed,
        "rows": {title: [attrs.asdict(row) for row in rows] for title, rows in run.rows.items()},
        "said": run.logged,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.load", description=__doc__)
    parser.add_argument("--stock", type=int, default=10_000, help="number of stock units to seed")
    parser.add_argument("--active", type=int, default=2_000, help="number of units to claim")
    parser.add_argument("--callers", type=int, default=64, help="number of concurrent callers")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds without requests")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--logs", type=Path, help="keep the processes' logs in this new folder")
    return parser.parse_args()


@contextmanager
def log_folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> int:
    given = arguments()
    size = Size(
        stock=given.stock, active=given.active, callers=given.callers, rest_seconds=given.rest
    )
    try:
        programs = binaries.find_or_build()
    except binaries.MissingBinariesError as error:
        sys.exit(str(error))
    # The garbage collectors of the control plane's Go programs took a third of its processor time.
    os.environ.setdefault("GOGC", "400")
    with (
        log_folder(given.logs) as folder,
        control_plane(
            programs, folder, large_options(folder, pods=size.stock + size.active)
        ) as plane,
        installation(plane, folder) as made,
    ):
        run = Run(size, made)
        try:
            asyncio.run(run.run())
        finally:
            for line, count in run.logged.items():
                print(f"{count:>8} times: {line}")
            if given.json:
                given.json.write_text(json.dumps(document_of(run, size), indent=1))
    print(f"{run.missed} budgets missed")
    return 1 if run.missed else 0


if __name__ == "__main__":
    sys.exit(main())
