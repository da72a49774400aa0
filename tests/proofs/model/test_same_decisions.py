"""Model and product decide alike in every situation of a small scope."""

from itertools import combinations, product
from typing import Final, get_args

import pytest

from gpuruntime.models.kinds import provenance
from gpuruntime.operations.claim import plan as claim_plan
from gpuruntime.operations.claim.plan import (
    Answer,
    Fail,
    Reusable,
    StartOver,
    StillFree,
    UnitFound,
)
from gpuruntime.operations.errors import (
    ClusterUnavailableError,
    NameTakenError,
    OperationConflictError,
    OperationsError,
    UnknownOutcomeError,
)
from gpuruntime.reconcilers.stock import claim_resolution_plan, pool_plan, rollout_plan
from gpuruntime.reconcilers.unit import start_plan
from gpuruntime.reconcilers.unit.start_plan import Candidate, Term
from tests.proofs.model import leaders
from tests.proofs.model.callers import Caller
from tests.proofs.model.decisions import (
    Gate,
    Resolution,
    Situation,
    follows,
    gate,
    is_claimable,
    plan,
    resolve,
)
from tests.proofs.model.product_objects import (
    claim_request_of,
    key_of,
    pool_of,
    stock_of,
    tombstone_of,
    unit_of,
)
from tests.proofs.model.state import (
    FROM_LEADER,
    Attempt,
    Mark,
    Move,
    Order,
    Request,
    Scope,
    State,
    Step,
    Stock,
    Unit,
    Verb,
    initial_state,
)

OURS: Final = Order("op1", "body1", 0, 0)
SCOPE: Final = Scope("one attempt", (OURS,))
STOCK_UID: Final = 11
LOSS: Final = ClusterUnavailableError("gone")
BOOLS: Final = (False, True)


def a_unit(
    *,
    uid: int = 1,
    operation: str = "op1",
    body: str = "body1",
    source: int = STOCK_UID,
    rank: int = 1,
    started: bool = False,
    lost: bool = False,
) -> Unit:
    return Unit(uid, operation, body, source, rank, False, started, lost)


def a_stock(*, uid: int = STOCK_UID, operation: str = "", name: int = 0) -> Stock:
    mark = Mark(operation, "body1", name, frozenset({0})) if operation else None
    return Stock(uid, 1, mark)


def situations() -> list[Situation]:
    units = [a_unit(started=started, lost=lost) for started in BOOLS for lost in BOOLS]
    rivals: list[tuple[tuple[int, Unit], ...]] = [()]
    for rank, started in product((0, 1, 2), BOOLS):
        rivals.append(((1, a_unit(uid=2, rank=rank, started=started, source=21)),))
    stock = [
        None,
        a_stock(),
        a_stock(operation="op1"),
        a_stock(operation="op2"),
        a_stock(operation="op1", name=1),
    ]
    return [
        Situation(unit, 0, others, has_tombstone, held, is_unsettled)
        for unit, others, has_tombstone, held, is_unsettled in product(
            units, rivals, BOOLS, stock, BOOLS
        )
    ]


def test_the_gate_decides_alike_about_every_unit() -> None:
    for given in situations():
        found = start_plan.gate(
            Candidate(unit=unit_of(given.unit, 0), has_started=given.unit.has_started),
            rivals=tuple(
                Candidate(unit=unit_of(each, name), has_started=each.has_started)
                for name, each in given.rivals
            ),
            tombstone=tombstone_of("op1", 0, 9) if given.has_tombstone else None,
            stock=stock_of(given.stock, 1) if given.stock else None,
            unsettled_seconds=60.0 if given.is_unsettled else 0.0,
        )
        assert type(found).__name__ == gate(given, SCOPE), given


def test_a_claimed_stock_unit_is_resolved_alike() -> None:
    claimants = [None] + [
        a_unit(operation=operation, source=source, started=started)
        for operation in ("op1", "op2")
        for source in (STOCK_UID, 21)
        for started in BOOLS
    ]
    for operation, claimant, recorded in product(("", "op1"), claimants, BOOLS):
        held = a_stock(operation=operation)
        found = claim_resolution_plan.resolve(
            stock_of(held, 1), unit_of(claimant, 0) if claimant else None, is_recorded=recorded
        )
        assert type(found).__name__ == resolve(held, claimant, SCOPE, is_recorded=recorded)


@pytest.mark.parametrize("is_refilled", BOOLS)
def test_a_pool_creates_deletes_and_records_the_same_ordinals(*, is_refilled: bool) -> None:
    positions: tuple[Stock | None, ...] = (None, a_stock(), a_stock(operation="op1"))
    ordinals = (1, 2, 3)
    for stock_by_ordinal, seeded, replicas in product(
        product(positions, repeat=3), range(4), range(4)
    ):
        for taken in (pair for size in range(2) for pair in combinations(ordinals, size)):
            scope = Scope("pool", (), replicas=replicas, is_refilled=is_refilled)
            pool = pool_of(scope, seeded)
            living = [
                stock_of(each, number) for number, each in enumerate(stock_by_ordinal, 1) if each
            ]
            takers = [unit_of(a_unit(source=each * 10 + 1), 0) for each in taken]
            stock = pool_plan.take_stock(pool, living, takers)
            found, ours = pool_plan.plan(pool, stock), plan(scope, seeded, stock_by_ordinal, taken)
            assert next(iter(found.creates), None) == ours.make
            assert {each.metadata.name for each in found.removes} == {
                f"p-{each}" for each in ours.removes
            }
            assert pool_plan.recordable(pool, stock) == ours.recordable


STOCK_STATES: Final = [
    a_stock(operation=operation)._replace(is_stale=is_stale, is_current=is_current)
    for operation, is_stale, is_current in product(("", "op1"), BOOLS, BOOLS)
]


@pytest.mark.parametrize("stock", STOCK_STATES, ids=str)
def test_the_same_stock_is_claimable(stock: Stock) -> None:
    assert provenance.is_free(stock_of(stock, 1)) == is_claimable(stock, SCOPE)


@pytest.mark.parametrize("stock", STOCK_STATES, ids=str)
def test_the_same_stock_follows_its_pool(stock: Stock) -> None:
    pool = pool_of(Scope("pool", (), replicas=1), 1)
    taken = pool_plan.take_stock(pool, [stock_of(stock, 1)], ())
    assert bool(rollout_plan.next_to_follow(pool, taken)) == follows(stock)


def an_attempt(step: Step, verb: Verb, *, unit: Unit | None) -> State:
    request = Request(verb, 0, 0, STOCK_UID, 1)
    attempt = Attempt(
        step=step, uid=STOCK_UID, version=2, is_owned=True, sent=request, is_late=False
    )
    return initial_state(SCOPE)._replace(units=((unit,),)).put_attempt(0, attempt)


def outcome_of(move: Move) -> tuple[str, bool]:
    """Return the answer, and whether the attempt releases its claim before it."""
    attempt = move[1].attempts[0]
    return attempt.answer, attempt.step is Step.RELEASE


ANSWERS: Final = {
    OperationConflictError.code: "conflict",
    NameTakenError.code: "taken",
    UnknownOutcomeError.code: "unknown",
}


def expected(move: claim_plan.Move) -> tuple[str, bool]:
    match move:
        case Answer():
            return "replayed", move.releases
        case Fail(error=OperationsError() as error):
            return ANSWERS[error.code], move.releases
        case _:
            raise AssertionError(move)


def words_of_unit(unit: Unit | None) -> str:
    if unit is None:
        return "no unit"
    stock = "its stock" if unit.source == STOCK_UID else "other stock"
    return f"{unit.operation} {unit.body} on {stock}"


UNITS: Final = [
    a_unit(operation=operation, body=body, source=source)
    for operation in ("op1", "op2")
    for body in ("body1", "body2")
    for source in (STOCK_UID, 21)
]


@pytest.mark.parametrize("unit", UNITS, ids=words_of_unit)
def test_a_unit_that_has_the_name_of_a_create_is_answered_alike(unit: Unit) -> None:
    state = an_attempt(Step.LOOK, Verb.CREATE, unit=unit)
    move = claim_plan.after_create(
        UnitFound(unit_of(unit, 0), None), claim_request_of(OURS), str(STOCK_UID)
    )
    assert outcome_of(Caller(SCOPE, 0).look(state)) == expected(move)


def test_an_attempt_starts_over_if_the_unit_with_its_name_is_gone() -> None:
    state = an_attempt(Step.LOOK, Verb.CREATE, unit=None)
    _, after = Caller(SCOPE, 0).look(state)
    move = claim_plan.after_create(
        claim_plan.UnitAbsent(None), claim_request_of(OURS), str(STOCK_UID)
    )
    assert isinstance(move, StartOver)
    assert after.attempts[0].step is Step.REPLAY


@pytest.mark.parametrize("unit", [None, *UNITS], ids=words_of_unit)
def test_a_create_whose_answer_was_lost_is_answered_alike(unit: Unit | None) -> None:
    state = an_attempt(Step.CREATE, Verb.CREATE, unit=unit)
    seen = UnitFound(unit_of(unit, 0), LOSS) if unit else claim_plan.UnitAbsent(LOSS)
    move = claim_plan.after_create(seen, claim_request_of(OURS), str(STOCK_UID))
    assert expected(move) in map(outcome_of, Caller(SCOPE, 0).lose_answer(state))


@pytest.mark.parametrize(
    "stock",
    [
        None,
        a_stock(),
        a_stock()._replace(is_current=False),
        a_stock(uid=12),
        *(a_stock(operation=each) for each in ("op1", "op2")),
    ],
    ids=["gone", "free", "changed", "created again", "claimed by op1", "claimed by op2"],
)
def test_an_attempt_goes_on_alike_after_a_refused_claim(stock: Stock | None) -> None:
    state = an_attempt(Step.CLAIM, Verb.CLAIM, unit=None)._replace(stock=((stock,),))
    request = Request(Verb.CLAIM, 0, 0, STOCK_UID, 0)
    steps = {after.attempts[0].step for _, after in Caller(SCOPE, 0).claim_refused(state, request)}
    seen: claim_plan.Seen = claim_plan.Elsewhere()
    if stock:
        live = stock_of(stock, 1)
        seen = claim_plan.seen_after_patch(live, str(STOCK_UID), "mine", claim_request_of(OURS))
    match seen:
        case StillFree():
            assert steps == {Step.CLAIM}
        case Reusable():
            assert steps == {Step.RESTAMP}
        case _:
            free = stock is not None and is_claimable(stock, SCOPE)
            assert steps == {Step.CLAIM if free else Step.LIST}


def test_a_claim_of_the_same_operation_for_another_body_ends_the_attempt() -> None:
    order = OURS._replace(body="body2")
    live = stock_of(a_stock(operation="op1"), 1)
    with pytest.raises(OperationConflictError):
        claim_plan.seen_after_patch(live, str(STOCK_UID), "mine", claim_request_of(order))
    scope = SCOPE._replace(orders=(order,))
    state = an_attempt(Step.CLAIM, Verb.CLAIM, unit=None)
    state = state._replace(stock=((a_stock(operation="op1"),),))
    request = Request(Verb.CLAIM, 0, 0, STOCK_UID, 0)
    ((_, after),) = Caller(scope, 0).claim_refused(state, request)
    assert after.attempts[0].answer == "conflict"


def test_a_lease_is_given_back_alike() -> None:
    scope = Scope("hand-over", (), leaders=3, hands_over=True)
    for is_own, is_earlier in product(BOOLS, BOOLS):
        senders = [1] * is_own + [0] * is_earlier
        requests = frozenset(Request(Verb.MAKE, FROM_LEADER + each, 0) for each in senders)
        state = initial_state(scope)._replace(leader=1, requests=requests)
        term = Term(age_seconds=1.0 if is_earlier else 61.0, is_clean=False)
        found = term.ends_clean(doubt_seconds=1.0 if is_own else 61.0)
        assert found == leaders._may_give_back(state, scope)


def test_a_term_with_a_handed_over_lease_considers_its_own_writes_alone() -> None:
    scope = Scope("hand-over", (), leaders=2, hands_over=True)
    earlier = frozenset({Request(Verb.START, FROM_LEADER, 0)})
    for lease_was_given in BOOLS:
        state = initial_state(scope)._replace(
            leader=1, requests=earlier, lease_was_given=lease_was_given
        )
        term = Term(age_seconds=1.0, is_clean=lease_was_given)
        assert bool(term.unsettled_seconds) == leaders._may_start_yet(state, scope)


def test_the_decisions_have_the_same_names() -> None:
    assert {each.__name__ for each in get_args(start_plan.Gate)} == set(Gate)
    assert {each.__name__ for each in get_args(claim_resolution_plan.Resolution)} == set(
        Resolution
    )


def test_a_stock_unit_is_held_for_the_claimant_that_its_mark_names() -> None:
    held, unit = stock_of(a_stock(operation="op1"), 1), unit_of(a_unit(), 0)
    assert start_plan.is_held_for(held, unit)
    assert unit.metadata.key == key_of(0)
