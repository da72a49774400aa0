"""Each move of the claim protocol, decided without a cluster."""

from datetime import timedelta

import attrs
import pytest

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.models.kinds import provenance
from gpuruntime.models.kinds.envelopes import envelope_of
from gpuruntime.models.kinds.tombstones import Tombstone
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.claim.plan import (
    Answer,
    AnswerLost,
    Claim,
    Created,
    Elsewhere,
    Fail,
    NameExists,
    ReadByName,
    Refused,
    Reusable,
    StartOver,
    StillFree,
    UnitAbsent,
    UnitFound,
    Won,
    after_claim,
    after_create,
    in_order,
    is_claim_of,
    is_unsettled,
    seen_after_patch,
)
from gpuruntime.operations.errors import (
    ClusterUnavailableError,
    InsufficientCapacityError,
    NameTakenError,
    OperationConflictError,
    OperationFinishedError,
    RefusedError,
    UnknownOutcomeError,
)
from tests.rooms.operations.units import MOMENT, active, claim_request, claimed, stock

OUR_STOCK = "uid-p-1"
LOSS = ClusterUnavailableError("gone")


def names(units: list[GPUUnit]) -> list[str]:
    return [unit.metadata.name for unit in units]


# The order in which stock is tried.


def test_stock_of_the_same_image_goes_before_older_stock() -> None:
    free = [stock("old", age=9), stock("same", age=1, image="python")]
    assert names(in_order(free, claim_request())) == ["same", "old"]


def test_each_group_is_sorted_by_age_and_rotated_by_the_operation() -> None:
    free = [stock(f"s-{age}", age=age) for age in range(10)]
    for number in range(20):
        order = names(in_order(free, claim_request(operation_id=f"op.{number}")))
        start = order.index("s-9")
        assert order[start:] + order[:start] == [f"s-{age}" for age in range(9, -1, -1)]


def test_operations_start_at_different_stock_and_each_always_at_the_same() -> None:
    free = [stock(f"s-{age}", age=age) for age in range(50)]
    first = [names(in_order(free, claim_request(operation_id=f"op.{n}")))[0] for n in range(50)]
    assert len(set(first)) > 20
    shuffled = free[25:] + free[:25]
    again = [
        names(in_order(shuffled, claim_request(operation_id=f"op.{n}")))[0] for n in range(50)
    ]
    assert again == first


def test_only_stock_of_the_wanted_envelope_fits_and_quantities_compare_by_value() -> None:
    free = [stock("other", memory="8Gi"), stock("fits", memory="16384Mi")]
    envelope = envelope_of(stock(memory="16Gi").spec)
    assert names(in_order(free, claim_request(envelope=envelope))) == ["fits"]
    assert len(in_order(free, claim_request())) == 2


@pytest.mark.parametrize(
    "unit",
    [stock(is_ready=False), stock(is_going=True), claimed(operation="other")],
    ids=["not ready", "terminating", "claimed"],
)
def test_unready_terminating_and_claimed_stock_is_not_free(unit: GPUUnit) -> None:
    assert not provenance.is_free(unit)
    assert provenance.is_free(stock())


# States of a stock unit after our PATCH.


@pytest.mark.parametrize(
    ("unit", "seen"),
    [
        (claimed(attempt="mine"), Won),
        (claimed(attempt="another"), Reusable),
        (claimed(operation="other"), Elsewhere),
        (stock(), StillFree),
        (stock(is_ready=False), Elsewhere),
        (stock(is_going=True), Elsewhere),
        (attrs.evolve(stock(), metadata=attrs.evolve(stock().metadata, uid="new")), Elsewhere),
    ],
    ids=[
        "this attempt",
        "another attempt",
        "another operation",
        "free",
        "not ready",
        "terminating",
        "recreated",
    ],
)
def test_a_rejected_or_lost_patch_is_judged_by_the_current_object(
    unit: GPUUnit, seen: type[object]
) -> None:
    assert type(seen_after_patch(unit, OUR_STOCK, "mine", claim_request())) is seen


def test_a_claim_of_our_operation_for_another_request_is_a_conflict() -> None:
    with pytest.raises(OperationConflictError):
        seen_after_patch(claimed(request_hash="h2"), OUR_STOCK, "mine", claim_request())
    with pytest.raises(OperationConflictError):
        is_claim_of(claimed(request_hash="h2"), claim_request())


def test_a_claim_on_terminating_stock_is_not_used() -> None:
    unit = claimed()
    going = attrs.evolve(unit, metadata=attrs.evolve(unit.metadata, deletionTimestamp=MOMENT))
    assert is_claim_of(unit, claim_request())
    assert not is_claim_of(going, claim_request())


# Claims that will soon be released.


def no_unit(_: Key) -> None:
    return None


def test_two_young_claims_of_one_operation_are_unsettled() -> None:
    listed = [claimed("p-1"), claimed("p-2")]
    assert is_unsettled(listed, no_unit, MOMENT)
    assert not is_unsettled(listed, no_unit, MOMENT + timedelta(seconds=3))
    assert not is_unsettled([claimed("p-1"), claimed("p-2", operation="two")], no_unit, MOMENT)


def test_a_young_claim_for_a_unit_that_uses_other_stock_is_unsettled() -> None:
    assert is_unsettled([claimed()], lambda _: active(source_uid="other"), MOMENT)
    assert not is_unsettled([claimed()], lambda _: active(source_uid=OUR_STOCK), MOMENT)
    foreign = active(operation="two", source_uid="other")
    assert not is_unsettled([claimed()], lambda _: foreign, MOMENT)


# Moves after the claim.

CLAIM = Claim(stock=claimed(), is_owned=True, sent_at=0.0)
ANSWER = Answer(unit=active(), is_replay=True)
NO_STOCK = InsufficientCapacityError("no ready stock of g1.1 is left")
FAILED = UnreachableError("the claim")
ABSENT = None
PRESENT = Tombstone(operation_id="one", buried=(), expires_at=MOMENT)
UNREAD = UnreachableError("the tombstone")
FINISHED = OperationFinishedError


@pytest.mark.parametrize(
    ("tombstone", "taken", "move"),
    [
        pytest.param(ABSENT, CLAIM, CLAIM, id="no tombstone, claim: use the claim"),
        pytest.param(ABSENT, ANSWER, ANSWER, id="no tombstone, unit found: answer with it"),
        pytest.param(ABSENT, NO_STOCK, NO_STOCK, id="no tombstone, no stock: no stock"),
        pytest.param(ABSENT, FAILED, FAILED, id="no tombstone, claim failed: its error"),
        pytest.param(PRESENT, CLAIM, FINISHED, id="tombstone, claim: finished"),
        pytest.param(PRESENT, ANSWER, FINISHED, id="tombstone, unit found: finished"),
        pytest.param(PRESENT, NO_STOCK, FINISHED, id="tombstone, no stock: finished"),
        pytest.param(PRESENT, FAILED, FINISHED, id="tombstone, claim failed: finished"),
        pytest.param(UNREAD, CLAIM, UNREAD, id="unread, claim: error of the read"),
        pytest.param(UNREAD, ANSWER, UNREAD, id="unread, unit found: error of the read"),
        pytest.param(UNREAD, NO_STOCK, UNREAD, id="unread, no stock: error of the read"),
        pytest.param(UNREAD, FAILED, FAILED, id="unread, claim failed: error of the claim"),
    ],
)
def test_the_tombstone_decides_what_a_claim_leads_to(
    tombstone: Tombstone | GpuRuntimeError | None,
    taken: Claim | Answer | GpuRuntimeError,
    move: Claim | Answer | GpuRuntimeError | type[OperationFinishedError],
) -> None:
    found = after_claim(tombstone, taken, claim_request())
    if not isinstance(found, Fail):
        assert found is move
    else:
        assert found.error is move or type(found.error) is move
        assert found.releases


# Moves after the create.


def test_a_created_unit_is_the_answer() -> None:
    assert after_create(Created(active()), claim_request(), OUR_STOCK) == Answer(
        unit=active(), is_replay=False
    )


def test_after_a_conflict_or_a_lost_answer_the_unit_is_read_by_name() -> None:
    assert after_create(NameExists(), claim_request(), OUR_STOCK) == ReadByName()
    assert after_create(AnswerLost(LOSS), claim_request(), OUR_STOCK) == ReadByName(lost=LOSS)


def test_a_definite_rejection_releases_the_claim() -> None:
    refusal = RefusedError("quota")
    assert after_create(Refused(refusal), claim_request(), OUR_STOCK) == Fail(
        error=refusal, releases=True
    )


def test_an_attempt_starts_over_if_the_conflicting_unit_is_gone() -> None:
    assert after_create(UnitAbsent(None), claim_request(), OUR_STOCK) == StartOver()


def test_a_lost_create_without_a_unit_keeps_its_claim() -> None:
    move = after_create(UnitAbsent(LOSS), claim_request(), OUR_STOCK)
    assert isinstance(move, Fail)
    assert isinstance(move.error, UnknownOutcomeError)
    assert not move.releases


def test_a_lost_create_whose_name_another_operation_has_keeps_its_claim() -> None:
    move = after_create(UnitFound(active(operation="two"), LOSS), claim_request(), OUR_STOCK)
    assert isinstance(move, Fail)
    assert isinstance(move.error, UnknownOutcomeError)
    assert not move.releases


@pytest.mark.parametrize(
    ("lost", "is_replay"), [(None, True), (LOSS, False)], ids=["exists", "answer lost"]
)
def test_our_unit_on_our_stock_is_the_answer(
    lost: ClusterUnavailableError | None, is_replay: bool
) -> None:
    move = after_create(UnitFound(active(), lost), claim_request(), OUR_STOCK)
    assert move == Answer(unit=active(), is_replay=is_replay, releases=False)


@pytest.mark.parametrize("lost", [None, LOSS], ids=["exists", "answer lost"])
def test_our_unit_on_other_stock_releases_the_claim(
    lost: ClusterUnavailableError | None,
) -> None:
    unit = active(source_uid="other")
    move = after_create(UnitFound(unit, lost), claim_request(), OUR_STOCK)
    assert move == Answer(unit=unit, is_replay=True, releases=True)


@pytest.mark.parametrize(
    ("unit", "error"),
    [
        (active(request_hash="h2"), OperationConflictError),
        (active(operation="two"), NameTakenError),
        (active(operation="two", is_going=True), NameTakenError),
    ],
    ids=["another request", "another operation", "terminating"],
)
def test_a_unit_of_another_request_releases_the_claim(
    unit: GPUUnit, error: type[Exception]
) -> None:
    move = after_create(UnitFound(unit, None), claim_request(), OUR_STOCK)
    assert isinstance(move, Fail)
    assert isinstance(move.error, error)
    assert move.releases


@pytest.mark.parametrize(("source_uid", "releases"), [(OUR_STOCK, False), ("other", True)])
def test_our_terminating_unit_ends_the_operation(source_uid: str, releases: bool) -> None:
    unit = active(source_uid=source_uid, is_going=True)
    move = after_create(UnitFound(unit, None), claim_request(), OUR_STOCK)
    assert isinstance(move, Fail)
    assert isinstance(move.error, OperationFinishedError)
    assert move.releases is releases
