"""The model makes the product's moves: a change of a step in the product fails a test here."""

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple, TypeAlias

import pytest

from tests.proofs.model import leaders, operators
from tests.proofs.model.api_server import guard_holds
from tests.proofs.model.callers import Caller
from tests.proofs.model.scopes import BY_TITLE
from tests.proofs.model.search import successors
from tests.proofs.model.state import Request, Step, Verb, initial_state

CLAIMS: Final = "gpuruntime.operations.claim.protocol"
STOCK: Final = "gpuruntime.operations.claim.stock"
DELETION: Final = "gpuruntime.operations.deletion"
UNIT: Final = "gpuruntime.reconcilers.unit.reconciler"
HANDOFF: Final = "gpuruntime.reconcilers.stock.act"
HANDOFF_READS: Final = "gpuruntime.reconcilers.stock.observation"
POOL: Final = "gpuruntime.reconcilers.stock.pool"
POOL_ACT: Final = "gpuruntime.reconcilers.stock.pool_act"
SEEDING: Final = "gpuruntime.reconcilers.stock.seeding"
OBSERVING: Final = "gpuruntime.reconcilers.unit.observation"
ACTING: Final = "gpuruntime.reconcilers.unit.act"
REPORTING: Final = "gpuruntime.reconcilers.unit.report"
MANAGER: Final = "gpuruntime.roles.manager"
CHILDREN: Final = "gpuruntime.reconcilers.children.keeper"

WRITE_VERBS: Final = frozenset({"create", "patch", "delete"})
GUARDS: Final = frozenset({"uid", "resource_version"})

Moves: TypeAlias = Callable[..., object]


class Write(NamedTuple):
    """A write through a client, with the names of the arguments that guard it."""

    function: str
    verb: str
    guards: frozenset[str]


class Counterpart(NamedTuple):
    """A function of the product, what it awaits in order, and its counterpart in the model."""

    module: str
    function: str
    awaits: tuple[str, ...]
    model: Moves


COUNTERPARTS: Final = (
    # The model has no storages: the product reads the mounted ones before it writes anything.
    Counterpart(
        CLAIMS,
        "ClaimAttempt._round",
        ("replay", "_check_storages", "claim", "create"),
        Caller.replay,
    ),
    Counterpart(
        CLAIMS, "ClaimAttempt.replay", ("_confirmed", "_demand_free_names"), Caller._replay_on
    ),
    Counterpart(
        CLAIMS, "ClaimAttempt._confirmed", ("_read", "_demand_unfinished"), Caller._replay_on
    ),
    Counterpart(CLAIMS, "ClaimAttempt._demand_free_names", ("_read",), Caller._is_taken),
    Counterpart(
        CLAIMS,
        "ClaimAttempt.claim",
        ("_demand_unfinished", "_demand_unfinished", "_reuse", "_as_value", "release"),
        Caller._claim_on,
    ),
    Counterpart(CLAIMS, "ClaimAttempt._reuse", ("restamp",), Caller._reuse),
    Counterpart(CLAIMS, "ClaimAttempt._claim_stock", ("claim", "_read"), Caller._without_stock),
    Counterpart(
        CLAIMS, "ClaimAttempt.create", ("_send", "release", "_read_outcome"), Caller.create
    ),
    Counterpart(CLAIMS, "ClaimAttempt._send", ("create",), Caller.create),
    Counterpart(CLAIMS, "ClaimAttempt._read_outcome", ("_read",), Caller.look),
    Counterpart(STOCK, "StockClaims.claim", ("_try", "_try", "_claim_listed"), Caller._pick),
    Counterpart(
        STOCK, "StockClaims._claim_listed", ("settled", "get", "sleep", "_claim_seen"), Caller.list
    ),
    Counterpart(STOCK, "StockClaims._claim_seen", ("restamp", "_try"), Caller._claim_listed),
    Counterpart(STOCK, "StockClaims.restamp", ("_mark",), Caller.restamped),
    Counterpart(STOCK, "StockClaims.release", ("patch",), Caller._release),
    Counterpart(STOCK, "StockClaims._try", ("_mark", "restamp"), Caller.claim_refused),
    Counterpart(
        STOCK, "StockClaims._mark", ("_patch", "_read_state", "_read_state"), Caller.claim_refused
    ),
    Counterpart(
        DELETION, "Deletions.delete", ("write", "delete", "_read", "_read"), operators._deletion
    ),
    Counterpart(UNIT, "UnitReconciler.keep", ("observe", "act", "report"), leaders._unit_writes),
    # Once the unit may start, the product reads live whether it is gone.
    Counterpart(
        OBSERVING,
        "UnitObserver.observe",
        ("_first_start", "_has_unseen_pods", "_with_live_children"),
        leaders._situation,
    ),
    Counterpart(
        OBSERVING,
        "UnitObserver._first_start",
        ("_rivals", "_has_started", "_tombstone", "_stock"),
        leaders._situation,
    ),
    Counterpart(OBSERVING, "UnitObserver._rivals", ("_live", "_has_started"), leaders._situation),
    # The model has no storages: the product takes those that the unit mounts before it starts.
    Counterpart(
        ACTING,
        "UnitActor.act",
        ("ensure", "hold", "_keep_secret", "take", "claim_for", "_delete", "_keep_or_remove"),
        leaders._unit_writes,
    ),
    # The claimant is read live after the grace, and the claim is freed only after that.
    Counterpart(
        HANDOFF_READS, "StockObserver.observe", ("_pool", "_live_claimant"), leaders._claim_writes
    ),
    Counterpart(
        HANDOFF, "StockActor.act", ("keep", "delete_stock", "_free"), leaders._claim_writes
    ),
    # That nothing is deleted before its ordinal is recorded, is in the plan and its table.
    Counterpart(POOL, "PoolReconciler.reconcile", ("act", "_report"), leaders._pool_writes),
    Counterpart(POOL, "PoolReconciler._report", ("patch",), leaders._pool_writes),
    Counterpart(
        POOL_ACT,
        "PoolActor.act",
        (
            *("_adopt", "make", "_change", "_remove", "patch"),
            *("ensure_tombstone", "delete", "ensure_tombstone", "patch"),
        ),
        leaders._pool_writes,
    ),
    Counterpart(MANAGER, "ManagerParts.drain", ("drain",), leaders._hand_over),
)

# The writes of the model that correspond to each write of the product.
WRITES: Final[dict[tuple[str, Write], tuple[Verb, ...]]] = {
    (CLAIMS, Write("ClaimAttempt._send", "create", frozenset())): (Verb.CREATE,),
    (STOCK, Write("StockClaims._patch", "patch", frozenset({"resource_version"}))): (
        Verb.CLAIM,
        Verb.RESTAMP,
    ),
    (STOCK, Write("StockClaims.release", "patch", frozenset({"resource_version"}))): (
        Verb.RELEASE,
    ),
    (ACTING, Write("UnitActor._delete", "delete", frozenset({"uid"}))): (Verb.REMOVE,),
    (REPORTING, Write("UnitReporter._write", "patch", frozenset({"resource_version"}))): (
        Verb.LOSE,
        Verb.REPORT,
    ),
    (CHILDREN, Write("ChildKeeper._create", "create", frozenset())): (Verb.START,),
    (HANDOFF, Write("StockActor._free", "patch", frozenset({"resource_version"}))): (Verb.FREE,),
    (HANDOFF, Write("delete_stock", "delete", frozenset({"uid", "resource_version"}))): (
        Verb.CONSUME,
        Verb.SHRINK,
    ),
    (SEEDING, Write("Seeder._create_or_get", "create", frozenset())): (Verb.MAKE,),
    (POOL_ACT, Write("PoolActor.patch", "patch", frozenset({"resource_version"}))): (Verb.RECORD,),
    (POOL_ACT, Write("PoolActor._change", "patch", frozenset({"resource_version"}))): (
        Verb.CHANGE,
    ),
    # These writes do not decide which unit has which stock.
    (POOL_ACT, Write("PoolActor.act", "delete", frozenset({"uid"}))): (),
    (CHILDREN, Write("ChildKeeper.remove", "delete", frozenset({"uid"}))): (),
    (CHILDREN, Write("ChildKeeper._patch", "patch", frozenset({"resource_version"}))): (),
}


@pytest.mark.parametrize("counterpart", COUNTERPARTS, ids=lambda counterpart: counterpart.function)
def test_a_function_of_the_product_awaits_the_steps_that_the_model_knows(
    counterpart: Counterpart,
) -> None:
    found = awaited(counterpart.module, counterpart.function)
    assert found == counterpart.awaits, (
        f"{counterpart.module}.{counterpart.function} awaits other steps than the model knows: "
        f"change {counterpart.model.__module__}.{counterpart.model.__qualname__} alike, "
        "explore with `nox -s model`, then update COUNTERPARTS"
    )


def test_every_write_of_the_protocol_is_a_write_of_the_model_with_its_guard() -> None:
    modules = (
        CLAIMS,
        STOCK,
        UNIT,
        OBSERVING,
        ACTING,
        REPORTING,
        CHILDREN,
        HANDOFF,
        SEEDING,
        POOL,
        POOL_ACT,
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
    ids=lambda value: value.function if isinstance(value, Write) else str(value),
)
def test_a_guard_of_the_model_refuses_what_the_product_s_guard_refuses(
    verb: Verb, write: Write
) -> None:
    scope = BY_TITLE["touched"]
    state = initial_state(scope)
    stock = state.stock_by_ordinal[0]
    assert stock is not None
    seen = Request(verb, 0, 0, stock.uid, stock.version)
    assert guard_holds(state, seen, scope)
    assert not guard_holds(state, seen._replace(uid=stock.uid + 1), scope)
    is_guarded = not guard_holds(state, seen._replace(version=stock.version + 1), scope)
    assert is_guarded == ("resource_version" in write.guards)


def test_an_undisturbed_attempt_takes_the_steps_in_the_product_s_order() -> None:
    scope = BY_TITLE["touched"]._replace(leaders=0, touches=0)
    state, steps = initial_state(scope), [Step.REPLAY]
    while steps[-1] is not Step.DONE:
        ways = [each for label, each in successors(state, scope) if "gives up" not in label]
        state = ways[0]
        steps.append(state.attempts[0].step)
    awaits = awaited(CLAIMS, "ClaimAttempt._round")
    counterpart = [step for step in awaits if step != "_check_storages"]
    assert [step for step in steps if step in counterpart] == counterpart


def test_a_deletion_writes_the_tombstone_before_it_deletes() -> None:
    steps = awaited(DELETION, "Deletions.delete")
    assert steps.index("write") < steps.index("delete")


def awaited(module: str, function: str) -> tuple[str, ...]:
    """Return the names of the calls that the function awaits, in source order."""
    found = [
        each for each in ast.walk(_functions(module)[function]) if isinstance(each, ast.Await)
    ]
    found.sort(key=lambda each: (each.lineno, each.col_offset))
    calls = [each.value for each in found if isinstance(each.value, ast.Call)]
    return tuple(_name(each) for each in calls)


def writes(module: str) -> Iterator[Write]:
    """Yield the writes of the module's functions through a client."""
    for name, function in _functions(module).items():
        for each in ast.walk(function):
            if isinstance(each, ast.Call) and _is_write(each):
                guards = GUARDS & {keyword.arg for keyword in each.keywords if keyword.arg}
                yield Write(name, _name(each), guards)


@cache
def _functions(module: str) -> dict[str, ast.AsyncFunctionDef | ast.FunctionDef]:
    """Return the module's functions by name; a method's name begins with its class."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    found = {}
    for node in tree.body:
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef):
                found[owner + each.name] = each
    return found


def _is_write(call: ast.Call) -> bool:
    target = call.func
    return (
        isinstance(target, ast.Attribute)
        and target.attr in WRITE_VERBS
        and ast.unparse(target.value).rpartition(".")[2].strip("_") == "client"
    )


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
