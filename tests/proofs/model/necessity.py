"""The breach that each clause prevents, and the scope that shows it."""

from typing import Final, NamedTuple

from tests.proofs.model.clauses import Clause
from tests.proofs.model.scopes import BY_TITLE
from tests.proofs.model.search import Report, explore

FREED: Final = "stock is free while a unit names it"
TOLD_NONE: Final = "an attempt is refused for lack of stock while stock is free"
TOLD_NONE_OWN: Final = "an attempt is refused for lack of stock while it has a claim or unit"
SECOND_STOCK: Final = "a retry takes a second stock unit"
CREATES_LATE: Final = "a finished operation creates a unit"
ANSWERED_LATE: Final = "a finished operation is answered with a unit"
STARTS_LATE: Final = "a unit of a finished operation starts"
TWO_OF_STOCK: Final = "two started units use one stock unit"
TWO_OF_OPERATION: Final = "two started units have one operation"
LOSER_STARTS: Final = "a unit starts after it has lost to another one"
CONSUMED_EARLY: Final = "stock is consumed before a unit has started on it"
SHRUNK: Final = "claimed stock is deleted as surplus"
CHANGED: Final = "claimed stock changes what it runs"
CLAIMED_EARLY: Final = "stock is claimed before it runs its present spec"
MADE_TWICE: Final = "an ordinal is created twice"


class Need(NamedTuple):
    scope: str
    breach: str


NEEDS: Final = {
    Clause.GUARDED_CLAIM: Need("hand", TWO_OF_STOCK),
    Clause.SAME_START: Need("retry, in order", SECOND_STOCK),
    Clause.LOOK_AFTER_CONFLICT: Need("retry, in order", SECOND_STOCK),
    Clause.LISTED: Need("never", TOLD_NONE),
    Clause.OWN_IN_LIST: Need("retry, one stock unit", TOLD_NONE_OWN),
    Clause.RESTAMP: Need("retry, one stock unit", FREED),
    Clause.OWNED_RELEASE: Need("deletion", FREED),
    Clause.OWN_GENERATION: Need("rolling", CLAIMED_EARLY),
    Clause.GUARDED_RELEASE: Need("one replica", FREED),
    Clause.UNKNOWN_KEPT: Need("touched", FREED),
    Clause.CREATE_BOUND: Need("touched", FREED),
    Clause.LIVE_TOMBSTONE: Need("winner deleted", CREATES_LATE),
    Clause.TOMBSTONE_DECIDES: Need("late retry", ANSWERED_LATE),
    Clause.TOMBSTONE_FIRST: Need("winner deleted", CREATES_LATE),
    Clause.TOMBSTONE_GATE: Need("deletion, one stock unit", STARTS_LATE),
    Clause.STARTED_WINS: Need("two bodies, one second", TWO_OF_OPERATION),
    Clause.CONFLICT_WAIT: Need("two bodies, two leaders", TWO_OF_OPERATION),
    Clause.LOST_START: Need("lost start", TWO_OF_OPERATION),
    Clause.ONE_TURN: Need("two workers", TWO_OF_OPERATION),
    Clause.LIVE_RIVALS: Need("two bodies, two leaders", TWO_OF_OPERATION),
    Clause.LOSER_NEVER_STARTS: Need("winner deleted", LOSER_STARTS),
    Clause.LOSER_KEEPS_CLAIM: Need("winner deleted", FREED),
    Clause.STOCK_GATE: Need("hand", TWO_OF_STOCK),
    Clause.STARTED_CONSUMES: Need("retry, one stock unit", CONSUMED_EARLY),
    Clause.RECORDED_CONSUMES: Need("never, deletion", MADE_TWICE),
    Clause.GRACE: Need("retry, one stock unit", FREED),
    Clause.LIVE_LOOK: Need("retry, one stock unit", FREED),
    Clause.GUARDED_FREE: Need("retry, one stock unit", FREED),
    Clause.GUARDED_DELETE: Need("shrinking", SHRUNK),
    Clause.GUARDED_CHANGE: Need("rolling", CHANGED),
    Clause.OWN_SETTLED: Need("hand-over", MADE_TWICE),
    Clause.EARLIER_SETTLED: Need("hand-over", MADE_TWICE),
    Clause.RELIST: Need("never, deletion", MADE_TWICE),
    Clause.RECORD_LATE: Need("never, deletion", MADE_TWICE),
}


def without(clause: Clause) -> Report:
    """Explore the clause's scope without the clause, up to the first breach."""
    scope = BY_TITLE[NEEDS[clause].scope].without(clause)
    return explore(scope, stops_at_breach=True)
