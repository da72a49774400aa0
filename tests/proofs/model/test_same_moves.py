"""The model makes the product's moves: whoever changes one of them finds the other here."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import pytest

from tests.proofs.model import leaders, operators
from tests.proofs.model.callers import Caller
from tests.proofs.model.landing import fits
from tests.proofs.model.scopes import BY_TITLE
from tests.proofs.model.search import successors
from tests.proofs.model.source import Write, awaited, writes
from tests.proofs.model.world import Request, Step, Verb, beginning

CLAIMS: Final = "gpuruntime.operations.claim.protocol"
STOCK: Final = "gpuruntime.operations.claim.stock"
DELETION: Final = "gpuruntime.operations.deletion"
UNIT: Final = "gpuruntime.reconcilers.unit.reconciler"
HANDOFF: Final = "gpuruntime.reconcilers.stock.reconciler"
INVENTORY: Final = "gpuruntime.reconcilers.stock.inventory"
REFILL: Final = "gpuruntime.reconcilers.stock.refill"
RETIREMENT: Final = "gpuruntime.reconcilers.stock.retirement"
POOL: Final = "gpuruntime.reconcilers.stock.pool"
DISSOLUTION: Final = "gpuruntime.reconcilers.stock.dissolution"
SEEDING: Final = "gpuruntime.reconcilers.stock.seeding"
RUNNING: Final = "gpuruntime.reconcilers.unit.runner"
MANAGER: Final = "gpuruntime.roles.manager"
CHILDREN: Final = "gpuruntime.reconcilers.children.keeper"

Moves: TypeAlias = Callable[..., object]


class Course(NamedTuple):
    """What a function of the product awaits, in order, and what of the model does the same."""

    module: str
    function: str
    awaits: tuple[str, ...]
    model: Moves


COURSES: Final = (
    # The model knows no storages: which ones the unit mounts is read before anything is written.
    Course(
        CLAIMS,
        "ClaimAttempt._round",
        ("replay", "_mounted", "_create_template", "claim", "create"),
        Caller.replay,
    ),
    Course(CLAIMS, "ClaimAttempt.replay", ("_confirmed", "_demand_free_names"), Caller._replay_on),
    Course(CLAIMS, "ClaimAttempt._confirmed", ("_read", "_demand_unfinished"), Caller._replay_on),
    Course(CLAIMS, "ClaimAttempt._demand_free_names", ("_read",), Caller._is_taken),
    Course(
        CLAIMS,
        "ClaimAttempt.claim",
        ("_demand_unfinished", "_reuse", "_settled", "release"),
        Caller._claim_on,
    ),
    Course(CLAIMS, "ClaimAttempt._reuse", ("restamp",), Caller._reuse),
    Course(CLAIMS, "ClaimAttempt._take", ("claim", "_read"), Caller._without_stock),
    Course(CLAIMS, "ClaimAttempt.create", ("_send", "release", "_look"), Caller.create),
    Course(CLAIMS, "ClaimAttempt._send", ("create",), Caller.create),
    Course(CLAIMS, "ClaimAttempt._look", ("_read",), Caller.look),
    Course(CLAIMS, "ClaimAttempt.release", ("release",), Caller._release),
    Course(STOCK, "StockClaims.claim", ("_try", "_try", "_claim_listed"), Caller._pick),
    Course(
        STOCK, "StockClaims._claim_listed", ("settled", "get", "sleep", "_claim_seen"), Caller.list
    ),
    Course(STOCK, "StockClaims._claim_seen", ("restamp", "_try"), Caller._claim_listed),
    Course(STOCK, "StockClaims.restamp", ("_mark",), Caller.restamped),
    Course(STOCK, "StockClaims._try", ("_mark", "restamp"), Caller.missed),
    Course(STOCK, "StockClaims._mark", ("_patch", "_look", "_look"), Caller.missed),
    Course(
        DELETION, "Deletions.delete", ("write", "delete", "_read", "_read"), operators._deletion
    ),
    Course(UNIT, "UnitReconciler._reconcile", ("report", "_pass", "_gate"), leaders._of_unit),
    Course(
        UNIT,
        "UnitReconciler._gate",
        ("_rivals", "_has_started", "_tombstone", "_stock"),
        leaders._situation,
    ),
    Course(UNIT, "UnitReconciler._rivals", ("_live_unit", "_has_started"), leaders._situation),
    Course(
        UNIT,
        "UnitReconciler._pass",
        ("_declare", "_start", "_hold", "_hold", "_remove", "_claim_again"),
        leaders._of_unit,
    ),
    # Whether a unit may mount its own is asked after the gate, and only puts its start off.
    Course(UNIT, "UnitReconciler._start", ("run", "take", "run", "wait"), leaders._of_unit),
    Course(HANDOFF, "StockReconciler._sit_out", ("_live_claimant", "_free"), leaders._of_claims),
    Course(
        REFILL,
        "PoolRefill.refill",
        ("make", "report", "remove", "retire"),
        leaders._of_pool,
    ),
    Course(REFILL, "PoolRefill.report", ("patch",), leaders._of_pool),
    Course(MANAGER, "Manager.drain", ("drain",), leaders._hand_over),
)

# Which writes of the model each of them is.
WRITES: Final[dict[tuple[str, Write], tuple[Verb, ...]]] = {
    (CLAIMS, Write("ClaimAttempt._send", "create", frozenset())): (Verb.CREATE,),
    (STOCK, Write("StockClaims._patch", "patch", frozenset({"resource_version"}))): (
        Verb.CLAIM,
        Verb.RESTAMP,
    ),
    (STOCK, Write("StockClaims.release", "patch", frozenset({"resource_version"}))): (
        Verb.RELEASE,
    ),
    (UNIT, Write("UnitReconciler._remove", "delete", frozenset({"uid"}))): (Verb.REMOVE,),
    (RUNNING, Write("Runner.report", "patch", frozenset({"resource_version"}))): (Verb.LOSE,),
    (CHILDREN, Write("ChildKeeper._create", "create", frozenset())): (Verb.START,),
    (HANDOFF, Write("StockReconciler._free", "patch", frozenset({"resource_version"}))): (
        Verb.FREE,
    ),
    (HANDOFF, Write("delete_stock", "delete", frozenset({"uid", "resource_version"}))): (
        Verb.CONSUME,
        Verb.SHRINK,
    ),
    (SEEDING, Write("Seeder._create_or_get", "create", frozenset())): (Verb.MAKE,),
    (INVENTORY, Write("PoolInventory.patch", "patch", frozenset({"resource_version"}))): (
        Verb.RECORD,
    ),
    # Writes that decide nothing about who has which stock.
    (RETIREMENT, Write("PoolRetirement.retire", "delete", frozenset({"uid"}))): (),
    (CHILDREN, Write("ChildKeeper.drop", "delete", frozenset({"uid"}))): (),
    (CHILDREN, Write("ChildKeeper._patch", "patch", frozenset({"resource_version"}))): (),
}


@pytest.mark.parametrize("course", COURSES, ids=lambda course: course.function)
def test_a_step_of_the_product_goes_the_course_that_the_model_knows(course: Course) -> None:
    found = awaited(course.module, course.function)
    assert found == course.awaits, (
        f"{course.module}.{course.function} has other steps than before: "
        f"change {course.model.__module__}.{course.model.__qualname__} alike, "
        "explore with `nox -s model`, then note them here"
    )


def test_every_write_of_the_protocol_is_a_write_of_the_model_with_its_guard() -> None:
    modules = (
        CLAIMS,
        STOCK,
        UNIT,
        RUNNING,
        CHILDREN,
        HANDOFF,
        SEEDING,
        INVENTORY,
        REFILL,
        RETIREMENT,
        POOL,
        DISSOLUTION,
    )
    assert {(module, each) for module in modules for each in writes(module)} == set(WRITES)
    assert {verb for verbs in WRITES.values() for verb in verbs} == set(Verb)


@pytest.mark.parametrize(
    ("verb", "write"),
    [
        (verb, write)
        for (module, write), verbs in WRITES.items()
        for verb in verbs
        if module in (STOCK, HANDOFF)
    ],
)
def test_a_guard_of_the_model_refuses_what_that_of_the_product_does(
    verb: Verb, write: Write
) -> None:
    scope = BY_TITLE["touched"]
    world = beginning(scope)
    stock = world.shelf[0]
    assert stock is not None
    seen = Request(verb, 0, 0, stock.uid, stock.version)
    assert fits(world, seen, scope)
    assert not fits(world, seen._replace(uid=stock.uid + 1), scope)
    is_guarded = not fits(world, seen._replace(version=stock.version + 1), scope)
    assert is_guarded == ("resource_version" in write.guards)


def test_an_attempt_that_nobody_disturbs_takes_the_steps_in_the_product_s_order() -> None:
    scope = BY_TITLE["touched"]._replace(leaders=0, touches=0)
    world, steps = beginning(scope), [Step.REPLAY]
    while steps[-1] is not Step.DONE:
        ways = [each for label, each in successors(world, scope) if "gives up" not in label]
        world = ways[0]
        steps.append(world.attempts[0].step)
    unknown = {"_mounted", "_create_template"}
    course = [step for step in awaited(CLAIMS, "ClaimAttempt._round") if step not in unknown]
    assert [step for step in steps if step in course] == course


def test_a_deletion_writes_the_tombstone_before_it_deletes() -> None:
    steps = awaited(DELETION, "Deletions.delete")
    assert steps.index("write") < steps.index("delete")
