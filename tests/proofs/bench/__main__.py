"""Run benches one after the other and print one table: `python -m tests.proofs.bench [BENCH ...]`.

A budget limits a ratio between two things measured in the same run, or a value that every machine
has to reach. It counts as missed if the value is off by more than a quarter.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tests.proofs.bench import (
    bursting,
    claiming,
    creating,
    embedded_server,
    idle_manager,
    invoking,
    listing,
    mirroring,
    reaching,
    slow_callers,
)
from tests.proofs.bench.rows import Row

EVENTS_A_SECOND = 2_000


def measured(module: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.proofs.bench.{module}", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return dict(json.loads(done.stdout))


def sync_rows() -> Iterator[Row]:
    floors, informers = [], []
    for _ in range(3):
        floors.append(measured("sync", "floor"))
        informers.append(measured("sync", "informer"))
    floor = min(floors, key=lambda each: each["seconds"])
    held = min(informers, key=lambda each: each["seconds"])
    dicts, models = measured("sync", "dicts"), measured("sync", "models")
    wire = floor["wire"]
    yield Row(name="50,000 Pods on the wire", value=wire / 1e6, unit="MB")
    yield Row(name="read and decoded with orjson, not kept", value=floor["seconds"], unit="s")
    yield Row(name="informer synced", value=held["seconds"], unit="s")
    ratio = held["seconds"] / floor["seconds"]
    yield Row(name="informer sync ÷ reading and decoding", value=ratio, unit="ratio", at_most=1.3)
    kept = held["bytes_kept"] / wire
    yield Row(name="memory kept ÷ bytes on the wire", value=kept, unit="ratio", at_most=0.9)
    yield Row(name="memory per object", value=held["bytes_kept"] / held["count"], unit="bytes")
    stall = 1000 * max(each["stall"] for each in informers)
    yield Row(name="longest stall of the event loop", value=stall, unit="ms", at_most=50)
    for name, each in (("dicts", dicts), ("models", models)):
        share = each["seconds"] / each["count"] * held["count"] / held["seconds"]
        yield Row(name=f"kubernetes_asyncio list as {name} ÷ informer", value=share, unit="ratio")
        memory = each["bytes_kept"] / each["count"]
        yield Row(name=f"kubernetes_asyncio {name}, memory per object", value=memory, unit="bytes")


def event_rows() -> Iterator[Row]:
    rate = str(EVENTS_A_SECOND)
    calm = [measured("events", "informer", rate, "20000") for _ in range(3)]
    best = min(calm, key=lambda each: each["p99"])
    yield Row(name="event → reconcile at 2,000/s, p50", value=1000 * best["p50"], unit="ms")
    p99 = 1000 * best["p99"]
    yield Row(name="event → reconcile at 2,000/s, p99", value=p99, unit="ms", at_most=5)
    full = measured("events", "informer", "0", "60000")
    yield Row(name="events per second at saturation", value=full["rate"], unit="1/s")
    for variant, count in (("dicts", "20000"), ("models", "4000")):
        other = measured("events", variant, "0", count)
        name = f"kubernetes_asyncio Watch as {variant}, at saturation"
        yield Row(name=name, value=other["rate"], unit="1/s")


def queue_rows() -> Iterator[Row]:
    queue = measured("queueing")
    yield Row(name="queue: add, get, done", value=queue["cycles"], unit="1/s")
    yield Row(name="queue with a controller behind it", value=queue["reconciles"], unit="1/s")


BENCHES: dict[str, Callable[[], Iterator[Row]]] = {
    "sync": sync_rows,
    "events": event_rows,
    "queue": queue_rows,
    "embedded": embedded_server.rows,
    "lists": listing.rows,
    "slow-callers": slow_callers.rows,
    "creates": creating.rows,
    "claims": claiming.rows,
    "managed-claims": claiming.managed_rows,
    "burst": bursting.rows,
    "memory": mirroring.rows,
    "idle-manager": idle_manager.rows,
    "invocations": invoking.rows,
    "gateway": reaching.rows,
}


def main(names: list[str]) -> int:
    """Run the benches of these names, or all of them, and return the exit code."""
    if unknown := [name for name in names if name not in BENCHES]:
        sys.exit(f"no bench {unknown[0]}: choose from {', '.join(BENCHES)}")
    missed = 0
    for name in names or BENCHES:
        for row in BENCHES[name]():
            print(row, flush=True)
            missed += row.is_missed
    print(f"{missed} budgets missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
