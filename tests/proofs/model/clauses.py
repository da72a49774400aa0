"""The clauses of the claim and stock protocol, each of which can be left out of a run."""

from enum import StrEnum


class Clause(StrEnum):
    """The value says what the product does; a run without it shows what that is good for."""

    GUARDED_CLAIM = "a claim is written at the version at which its stock was seen"
    SAME_START = "an operation begins with the same stock unit in every replica"
    LOOK_AFTER_CONFLICT = "a refused claim looks at the stock, and re-uses one of its operation"
    LISTED = "there is no stock only where a consistent list shows none"
    OWN_IN_LIST = "before there is no stock, the operation's own claim and unit are looked for"
    RESTAMP = "whoever re-uses a claim writes its own attempt on it first"
    OWNED_RELEASE = "only the attempt that made a claim takes it back"
    GUARDED_RELEASE = "a claim is taken back at the version that its own write left"
    UNKNOWN_KEPT = "a create of unknown outcome leaves its claim to the grace"
    CREATE_BOUND = "no create is sent that could outlive the grace"
    LIVE_TOMBSTONE = "the tombstone is read live before anything is created"
    TOMBSTONE_DECIDES = "no unit is told of once its operation has a tombstone"
    TOMBSTONE_FIRST = "a deletion writes the tombstone before the unit goes"
    TOMBSTONE_GATE = "a unit whose operation ended under its name is removed, not started"
    STARTED_WINS = "of several units of an operation one that has started goes first"
    CONFLICT_WAIT = "rivals wait until no request of an earlier leader can start another one"
    LOST_START = "rivals wait while a start whose answer was lost may land"
    ONE_TURN = "of the units of an operation a leader handles one at a time"
    LIVE_RIVALS = "among rivals it is read live which of them has started"
    LOSER_NEVER_STARTS = "a unit that lost never starts, also when the winner is gone"
    LOSER_KEEPS_CLAIM = "a unit that lost keeps its claim until it is deleted"
    STOCK_GATE = "a unit starts only while the stock it names is held for it"
    STARTED_CONSUMES = "stock is consumed only once its unit has started"
    RECORDED_CONSUMES = "stock is consumed only once its ordinal is recorded"
    GRACE = "a claim without a unit is freed only when no create can still name it"
    LIVE_LOOK = "a claim is freed only after a live look for its unit"
    GUARDED_FREE = "a claim is freed at the version at which it was seen"
    GUARDED_DELETE = "stock is deleted by uid and version"
    OWN_SETTLED = "a leader gives its lease back only when no write of its own can land"
    EARLIER_SETTLED = "nor while a write of an earlier leader can land"
    RELIST = "a new leader begins with a consistent list"
    RECORD_LATE = "an ordinal is recorded only when no create can be in flight"


ALL = frozenset(Clause)
