"""The state of the model: one value for the whole system at one moment.

These are named tuples and not attrs classes, because a search hashes and compares hundreds of
thousands of them.
"""

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tests.proofs.model.clauses import ALL, Clause

ValueT = TypeVar("ValueT")

NAMES: Final = "abcd"
# The number of the first leader as a reader of caches; the replicas of the API come before it.
LEADER: Final = 2
# The number of the first leader as a sender of requests; attempts come before it.
FROM_LEADER: Final = 100


class Order(NamedTuple):
    """A request of a caller to one replica."""

    operation: str
    body: str
    name: int
    replica: int


class Scope(NamedTuple):
    """How many of each thing exist, and which clauses hold.

    An attempt tries candidates in any order, or in the product's order if the scope `is_ordered`.
    """

    title: str
    orders: tuple[Order, ...]
    stock: int = 1
    ordinals: int = 1
    replicas: int = 0
    is_refilled: bool = False
    is_seeding: bool = False
    seeded: int = 1
    leaders: int = 1
    hands_over: bool = False
    workers: int = 1
    deleted: tuple[int, ...] = ()
    touches: int = 0
    lost_answers: int = 0
    has_refusals: bool = False
    has_ties: bool = False
    has_manual_release: bool = False
    is_rolling: bool = False
    is_ordered: bool = False
    clauses: frozenset[Clause] = ALL

    def keeps(self, clause: Clause) -> bool:
        return clause in self.clauses

    def without(self, clause: Clause) -> "Scope":
        return self._replace(clauses=self.clauses - {clause})


class Mark(NamedTuple):
    """A claim on a stock unit; `stamps` are the attempts that wrote it."""

    operation: str
    body: str
    name: int
    stamps: frozenset[int]


class Stock(NamedTuple):
    """A stock unit. A stale one lacks the present spec of its pool.

    It `is_current` if its status reports its present spec, and then it is ready.
    """

    uid: int
    version: int
    mark: Mark | None
    is_stale: bool = False
    is_current: bool = True


class Unit(NamedTuple):
    """An active unit. `rank` is its age in whole seconds; `is_late` if its operation has ended."""

    uid: int
    operation: str
    body: str
    source: int
    rank: int
    is_late: bool
    has_started: bool = False
    has_lost: bool = False


StockByOrdinal: TypeAlias = tuple[Stock | None, ...]  # by ordinal
UnitsByName: TypeAlias = tuple[Unit | None, ...]  # by name


class Verb(StrEnum):
    """A kind of write, which is in flight from its sending until it lands or is dropped."""

    CLAIM = "claim"
    RESTAMP = "re-stamp"
    CREATE = "create"
    RELEASE = "release"
    START = "start"
    REMOVE = "remove"
    LOSE = "lose"
    CONSUME = "consume"
    FREE = "free"
    SHRINK = "shrink"
    MAKE = "make"
    RECORD = "record"
    CHANGE = "change"
    REPORT = "report"


class Request(NamedTuple):
    """A write in flight. `target` is an index; `uid` and `version` are what the sender saw there.

    For a create they belong to the stock unit that it names. For a record they are the old and new
    ordinal.
    """

    verb: Verb
    sender: int
    target: int
    uid: int = 0
    version: int = 0


class Step(StrEnum):
    """The step of an attempt; any other move may come between two steps."""

    REPLAY = "replay"
    LIST = "list"
    CLAIM = "claim"
    RESTAMP = "re-stamp"
    CLAIMED = "claimed"
    CREATE = "create"
    LOOK = "look"
    RELEASE = "release"
    DONE = "done"


class Attempt(NamedTuple):
    """An attempt. `sent` is the request that it waits for; `found` is the unit in its answer."""

    step: Step = Step.REPLAY
    round: int = 0
    is_late: bool = False
    sees_tombstone: bool = False
    stock: int = 0
    uid: int = 0
    version: int = 0
    is_owned: bool = False
    passed: tuple[tuple[int, int], ...] = ()
    answer: str = ""
    found: int = 0
    sent: Request | None = None


class CachePosition(NamedTuple):
    """How far a reader's caches have come, for each kind."""

    stock: int = 0
    units: int = 0
    pool: int = 0


class History(NamedTuple):
    """Facts about the past that no object contains; the invariants need them."""

    made: tuple[int, ...]
    uids: int = 0
    claims: int = 0
    started: frozenset[str] = frozenset()
    consumed_by: frozenset[int] = frozenset()
    ended: frozenset[tuple[str, int]] = frozenset()
    faults: tuple[str, ...] = ()


class State(NamedTuple):
    """The whole system. Each kind is its history, newest last, from the oldest cached one."""

    stock: tuple[StockByOrdinal, ...]
    units: tuple[UnitsByName, ...]
    pool: tuple[int, ...]
    tombstones: frozenset[tuple[str, int, int]]
    positions: tuple[CachePosition, ...]
    attempts: tuple[Attempt, ...]
    history: History
    requests: frozenset[Request] = frozenset()
    leader: int = 0
    # True if the leader was handed the lease. Then no write of an earlier leader can be in flight.
    lease_was_given: bool = False
    awaits: frozenset[Request] = frozenset()
    deletion_progress: tuple[int, ...] = ()
    touches: int = 0
    lost_answers: int = 0
    has_manual_release: bool = False

    @property
    def stock_by_ordinal(self) -> StockByOrdinal:
        return self.stock[-1]

    @property
    def units_by_name(self) -> UnitsByName:
        return self.units[-1]

    @property
    def seeded(self) -> int:
        return self.pool[-1]

    def put_stock(self, ordinal: int, stock: Stock | None) -> "State":
        return self._replace(stock=(*self.stock, replaced(self.stock_by_ordinal, ordinal, stock)))

    def put_unit(self, name: int, unit: Unit | None) -> "State":
        return self._replace(units=(*self.units, replaced(self.units_by_name, name, unit)))

    def put_attempt(self, number: int, attempt: Attempt) -> "State":
        return self._replace(attempts=replaced(self.attempts, number, attempt))

    def send(self, request: Request) -> "State":
        return self._replace(requests=self.requests | {request})

    def fault(self, text: str) -> "State":
        return self._replace(history=self.history._replace(faults=(*self.history.faults, text)))


Move: TypeAlias = tuple[str, State]


def replaced(values: tuple[ValueT, ...], index: int, value: ValueT) -> tuple[ValueT, ...]:
    return (*values[:index], value, *values[index + 1 :])


def initial_state(scope: Scope) -> State:
    stock_by_ordinal = tuple(
        Stock(uid=ordinal * 10 + 11, version=1, mark=None, is_stale=scope.is_rolling)
        if ordinal < scope.stock
        else None
        for ordinal in range(scope.ordinals)
    )
    names = max((order.name for order in scope.orders), default=0) + 1
    return State(
        stock=(stock_by_ordinal,),
        units=((None,) * names,),
        pool=(scope.seeded,),
        tombstones=frozenset(),
        positions=(CachePosition(),) * (LEADER + max(2, scope.leaders)),
        attempts=(Attempt(),) * len(scope.orders),
        history=History(made=tuple(int(each is not None) for each in stock_by_ordinal)),
        deletion_progress=(0,) * len(scope.deleted),
        touches=scope.touches,
        lost_answers=scope.lost_answers,
        has_manual_release=scope.has_manual_release,
    )
