"""Crashes at each kind of write in turn, because chance rarely hits rare writes."""

from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import Final

from gpuruntime.models.kinds import labels
from tests.proofs.simulation.checks.coverage import MOMENTS
from tests.proofs.simulation.faults.kinds import (
    APIS,
    FIRST_SECOND,
    LEADING_ACTIVATOR,
    MANAGERS,
    PlannedFault,
    Target,
)
from tests.rooms.operations.cluster import INSTANCE, STOCK, SYSTEM

EACH_SEED: Final = 4
# Early, so that the write is still to come.
LAST_SECOND: Final = 90.0
_OF_MANAGERS: Final = (
    (Target.CREATE, STOCK, "deployments"),
    (Target.CREATE, STOCK, "events"),
    (Target.CREATE, STOCK, "gpuunits"),
    (Target.CREATE, INSTANCE, "deployments"),
    (Target.CREATE, INSTANCE, "events"),
    (Target.CREATE, INSTANCE, "jobs"),
    (Target.CREATE, INSTANCE, "networkpolicies"),
    (Target.CREATE, INSTANCE, "persistentvolumeclaims"),
    (Target.CREATE, INSTANCE, "secrets"),
    (Target.CREATE, INSTANCE, "services"),
    (Target.CREATE, SYSTEM, "configmaps"),
    (Target.PATCH, STOCK, "deployments"),
    (Target.PATCH, STOCK, "gpuunits"),
    (Target.PATCH, STOCK, "stockpools"),
    (Target.PATCH, INSTANCE, "deployments"),
    (Target.PATCH, INSTANCE, "events"),
    (Target.PATCH, INSTANCE, "gpustorages"),
    (Target.PATCH, INSTANCE, "gpuunits"),
    (Target.PATCH, INSTANCE, "jobs"),
    (Target.PATCH, INSTANCE, "networkpolicies"),
    (Target.PATCH, INSTANCE, "persistentvolumeclaims"),
    (Target.PATCH, INSTANCE, "services"),
    (Target.DELETE, STOCK, "gpuunits"),
    (Target.DELETE, INSTANCE, "gpuunits"),
    (Target.DELETE, INSTANCE, "persistentvolumeclaims"),
    (Target.DELETE, INSTANCE, "services"),
)
_OF_APIS: Final = (
    (Target.CREATE, STOCK, "stockpools"),
    (Target.CREATE, INSTANCE, "gpustorages"),
    (Target.CREATE, INSTANCE, "gpuunits"),
    (Target.CREATE, SYSTEM, "configmaps"),
    (Target.PATCH, STOCK, "gpuunits"),
    (Target.PATCH, STOCK, "stockpools"),
    (Target.PATCH, INSTANCE, "gpustorages"),
    (Target.PATCH, INSTANCE, "gpuunits"),
    (Target.DELETE, STOCK, "stockpools"),
    (Target.DELETE, INSTANCE, "gpustorages"),
    (Target.DELETE, INSTANCE, "gpuunits"),
)
_OF_ACTIVATORS: Final = (
    (Target.CREATE, INSTANCE, "gpuunits"),
    (Target.CREATE, SYSTEM, "configmaps"),
    (Target.PATCH, STOCK, "gpuunits"),
    (Target.PATCH, INSTANCE, "gpuunits"),
    (Target.DELETE, INSTANCE, "gpuunits"),
)
# Rare writes whose path is shared by frequent ones are recognized by another text.
_FREES_STOCK: Final = (Target.PATCH, f'"{labels.CLAIMED_BY}":null')
_WRITES_STATUS: Final = (Target.PATCH, "/status")


def _aimed(writes: Iterable[tuple[Target, str, str]]) -> Iterator[tuple[Target, str]]:
    for target, namespace, plural in writes:
        yield target, f"/namespaces/{namespace}/{plural}"


CRASHES: Final = tuple(
    product(
        (
            *((MANAGERS, *write) for write in (*_aimed(_OF_MANAGERS), _FREES_STOCK)),
            *((APIS, *write) for write in _aimed(_OF_APIS)),
        ),
        MOMENTS,
    )
)
ACTIVATORS_CRASHES: Final = tuple(
    product(
        (((LEADING_ACTIVATOR,), *write) for write in (*_aimed(_OF_ACTIVATORS), _WRITES_STATUS)),
        MOMENTS,
    )
)


def aimed_crashes(seed: int, *, has_function: bool) -> Iterator[PlannedFault]:
    rng = Random(f"{seed} crashes")
    crashes = [CRASHES[(EACH_SEED * seed + number) % len(CRASHES)] for number in range(EACH_SEED)]
    if has_function:
        crashes.append(ACTIVATORS_CRASHES[seed % len(ACTIVATORS_CRASHES)])
    for (processes, target, aim), moment in crashes:
        at, skip = rng.uniform(FIRST_SECOND, LAST_SECOND), rng.choice((0, 0, 1))
        for process in processes:
            yield PlannedFault(
                at=at,
                process=process,
                kind=moment,
                target=target,
                skip=skip,
                seconds=rng.uniform(0.5, 40.0),
                aim=aim,
            )
