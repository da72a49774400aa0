"""Order of mounting a storage: its holder, then the oldest unit that waits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.reasons import MountReason
from gpuruntime.models.kinds.storages import GPUStorage, GPUStorageSpec, GPUStorageStatus, Holder
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec, GPUUnitStatus, StorageMount
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.storage.mount_plan import (
    Blocked,
    Mountable,
    Takes,
    mounts_of,
    next_in_line,
)

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
READY = Condition(type="Ready", status="True", reason="VolumeReady", message="claim holds 10Gi")
FAILED = Condition(type="Ready", status="False", reason="VolumeLost", message="gone")


def unit(name: str, *storages: str, age: int = 0, **spec: Any) -> GPUUnit:
    created = BEGIN - timedelta(seconds=age)
    mounts = tuple(StorageMount(name=each, mountPath=f"/{each}") for each in storages)
    return GPUUnit(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creationTimestamp=created),
        spec=GPUUnitSpec(specName="g1.1", storageMounts=mounts, **spec),
    )


def storage(name: str, *, held_by: str = "", ready: Condition | None = READY) -> GPUStorage:
    holder = Holder(name=held_by, uid=f"uid-{held_by}") if held_by else None
    return GPUStorage(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}"),
        spec=GPUStorageSpec(size="10Gi"),
        status=GPUStorageStatus(holder=holder, conditions=(ready,) if ready else ()),
    )


def looked(one: GPUUnit, *storages: GPUStorage, rivals: tuple[GPUUnit, ...] = ()) -> Any:
    by_name = {each.metadata.name: each for each in storages}
    return mounts_of(one, by_name.get, dict.fromkeys(by_name, (one, *rivals)))


def test_a_unit_may_mount_a_storage_that_it_holds() -> None:
    assert looked(unit("a", "s"), storage("s", held_by="a")) == Mountable()


def test_a_unit_takes_a_free_storage() -> None:
    free = storage("s")
    assert looked(unit("a", "s"), free) == Takes((free,))


def test_a_unit_takes_its_missing_storages_before_it_starts() -> None:
    held, free = storage("s", held_by="a"), storage("t")
    assert looked(unit("a", "s", "t"), held, free) == Takes((free,))


def test_a_unit_waits_for_another_units_storage_whatever_its_age() -> None:
    found = looked(unit("a", "s", age=9), storage("s", held_by="b"))
    assert found.reason is MountReason.STORAGE_HELD
    assert found.message == "storage s is held by unit b until its Pod is gone"


def test_a_holder_that_still_mounts_a_storage_is_named_with_a_remedy() -> None:
    found = looked(unit("a", "s"), storage("s", held_by="b"), rivals=(unit("b", "s"),))
    assert found.message == (
        "storage s is held by unit b until its Pod is gone: "
        "delete that unit, or take the storage out of its storageMounts"
    )


def test_a_unit_with_the_holders_name_and_another_uid_waits() -> None:
    """A later unit of the same name has to wait for the Pods of the first."""
    held = storage("s", held_by="a")
    later = attrs.evolve(unit("a", "s"), metadata=ObjectMeta(name="a", uid="another"))
    assert looked(later, held).reason is MountReason.STORAGE_HELD


def test_the_oldest_waiting_unit_is_next() -> None:
    older, younger = unit("a", "s", age=2), unit("b", "s", age=1)
    assert isinstance(looked(older, storage("s"), rivals=(younger,)), Takes)
    blocked = looked(younger, storage("s"), rivals=(older,))
    assert blocked.message == (
        "storage s goes to unit a, which is older: "
        "delete that unit, or take the storage out of its storageMounts"
    )


def test_the_uid_decides_between_units_of_the_same_age() -> None:
    first, second = unit("a", "s"), unit("b", "s")
    assert next_in_line((second, first)) == first


@pytest.mark.parametrize(
    "idle",
    [
        unit("a", "s", age=9, suspended=True),
        unit("a", "s", age=9, serverless=Serverless(requestID="f", maxWorkers=1)),
        attrs.evolve(
            unit("a", "s", age=9),
            status=GPUUnitStatus(
                conditions=(Condition(type="Ready", status="False", reason="InvalidSpec"),)
            ),
        ),
        attrs.evolve(
            unit("a", "s", age=9),
            status=GPUUnitStatus(
                conditions=(Condition(type="Ready", status="False", reason="ClaimLost"),)
            ),
        ),
        attrs.evolve(
            unit("a", "s", age=9),
            metadata=ObjectMeta(name="a", uid="uid-a", deletionTimestamp=BEGIN),
        ),
    ],
    ids=["suspended", "template", "failed", "without stock", "terminating"],
)
def test_a_unit_that_cannot_start_keeps_no_other_waiting(idle: GPUUnit) -> None:
    assert isinstance(looked(unit("b", "s"), storage("s"), rivals=(idle,)), Takes)


@pytest.mark.parametrize(
    ("other", "is_in_line"),
    [
        (storage("t"), True),
        (storage("t", held_by="c"), True),
        (None, False),
        (storage("t", ready=None), False),
        (storage("t", ready=FAILED), False),
        (storage("t", ready=FAILED, held_by="a"), False),
    ],
    ids=["free", "held", "missing", "on its way", "failed", "failed while it is held"],
)
def test_a_unit_that_lacks_more_than_a_held_storage_is_not_in_line(
    other: GPUStorage | None, is_in_line: bool
) -> None:
    older, younger = unit("a", "s", "t", age=9), unit("b", "s")
    stored = {"s": storage("s"), **({"t": other} if other else {})}
    found = mounts_of(younger, stored.get, {"s": (older, younger), "t": (older,)})
    assert isinstance(found, Blocked) is is_in_line


def test_a_unit_that_is_not_in_line_reports_what_it_lacks() -> None:
    older, younger = unit("a", "s", "t", age=9), unit("b", "s")
    found = looked(older, storage("s"), rivals=(younger,))
    assert found.reason is MountReason.STORAGE_MISSING
    assert found.message.startswith("storage t does not exist")


def test_storages_are_taken_in_one_order_whatever_the_order_of_the_mounts() -> None:
    """Two units that took them in different orders could each end with one."""
    found = looked(unit("a", "t", "s", "u"), storage("u"), storage("s"), storage("t"))
    assert [each.metadata.name for each in found.storages] == ["s", "t", "u"]


def test_units_that_mount_each_others_storages_do_not_wait_for_each_other() -> None:
    older, younger = unit("a", "s", "t", age=2), unit("b", "t", "s", age=1)
    assert isinstance(looked(older, storage("s"), storage("t"), rivals=(younger,)), Takes)
    assert isinstance(looked(younger, storage("s"), storage("t"), rivals=(older,)), Blocked)


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        ((), MountReason.STORAGE_MISSING, "does not exist"),
        ((storage("s", ready=None),), MountReason.STORAGE_NOT_READY, "is not ready"),
        (
            (
                storage(
                    "s",
                    ready=Condition(
                        type="Ready", status="False", reason="VolumePending", message="it waits"
                    ),
                ),
            ),
            MountReason.STORAGE_NOT_READY,
            "is not ready: it waits",
        ),
        (
            (
                storage(
                    "s",
                    ready=Condition(
                        type="Ready", status="False", reason="PrepareFailed", message="exit 1"
                    ),
                ),
            ),
            MountReason.STORAGE_FAILED,
            "storage s failed: exit 1",
        ),
    ],
    ids=["missing", "no condition", "volume pending", "prepare failed"],
)
def test_a_half_filled_storage_is_never_mounted(
    found: tuple[GPUStorage, ...], reason: MountReason, words: str
) -> None:
    blocked = looked(unit("a", "s"), *found)
    assert blocked.reason is reason
    assert words in blocked.message


def test_a_terminating_storage_is_reported_with_a_remedy() -> None:
    going = ObjectMeta(name="s", uid="uid-s", deletionTimestamp=BEGIN)
    blocked = looked(unit("a", "s"), attrs.evolve(storage("s", held_by="a"), metadata=going))
    assert blocked.reason is MountReason.STORAGE_MISSING
    assert blocked.message == (
        "storage s is being deleted: take it out of storageMounts, "
        "or create it again once it is gone"
    )


def marked(one: GPUUnit, *, uids: str = "", tenant: str = "") -> GPUUnit:
    annotations = {labels.STORAGE_UIDS: uids} if uids else {}
    tenants = {labels.TENANT: tenant} if tenant else {}
    metadata = attrs.evolve(one.metadata, annotations=annotations, labels=tenants)
    return attrs.evolve(one, metadata=metadata)


def of_tenant(tenant: str, **more: Any) -> GPUStorage:
    made = storage("s", **more)
    metadata = attrs.evolve(made.metadata, labels={labels.TENANT: tenant})
    return attrs.evolve(made, metadata=metadata)


@pytest.mark.parametrize(
    ("one", "found", "words"),
    [
        (marked(unit("a", "s"), uids="s=uid-s"), storage("s"), ""),
        # A storage that was created again is accepted, too, unless it is another tenant's.
        (marked(unit("a", "s"), uids="s=gone"), storage("s"), ""),
        (marked(unit("a", "s"), uids="s=gone", tenant="a"), of_tenant("a"), ""),
        (
            marked(unit("a", "s"), uids="s=gone", tenant="a"),
            of_tenant("b"),
            "is another tenant's",
        ),
        # A storage that its unit already holds is accepted, even of another tenant.
        (marked(unit("a", "s"), uids="s=uid-s", tenant="a"), of_tenant("b"), ""),
        (marked(unit("a", "s"), uids="t=gone", tenant="a"), of_tenant("a"), ""),
        (marked(unit("a", "s"), tenant="a"), of_tenant("b"), "is another tenant's"),
        (marked(unit("a", "s"), tenant="a"), storage("s"), ""),
        (unit("a", "s"), of_tenant("b"), ""),
        # Not even the state of another tenant's storage is reported.
        (
            marked(unit("a", "s"), tenant="a"),
            of_tenant("b", ready=None, held_by="b"),
            "is another tenant's",
        ),
        (marked(unit("a", "s"), tenant="a"), of_tenant("b", held_by="a"), ""),
    ],
    ids=[
        "same uid",
        "created again without tenants",
        "created again by the same tenant",
        "created again by another tenant",
        "same uid of another tenant",
        "no uid recorded, same tenant",
        "no uid recorded, another tenant",
        "storage without a tenant",
        "unit without a tenant",
        "another tenant's storage that is not ready",
        "another tenant's storage that the unit holds",
    ],
)
def test_a_unit_gets_the_named_storage_and_no_other_tenants_of_that_name(
    one: GPUUnit, found: GPUStorage, words: str
) -> None:
    mounts = looked(one, found)
    if not words:
        assert isinstance(mounts, Takes | Mountable)
        return
    assert mounts.reason is MountReason.STORAGE_MISSING
    assert mounts.message == (f"storage s {words}: set storageMounts anew, or take it out of them")


def test_a_storage_that_fails_stops_even_its_holder() -> None:
    blocked = looked(unit("a", "s"), storage("s", held_by="a", ready=FAILED))
    assert blocked.reason is MountReason.STORAGE_FAILED
