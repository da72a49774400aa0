"""The clauses of the claim and stock protocol; a search can leave out any of them."""

from enum import StrEnum


class Clause(StrEnum):
    """A rule of the product, in the words of its value; a search without it shows its purpose."""

    GUARDED_CLAIM = "a claim is written at the version at which its stock was seen"
    SAME_START = "an operation tries the same stock unit first in every replica"
    LOOK_AFTER_CONFLICT = (
        "after a refused claim the stock unit is read, and a claim of the same operation re-used"
    )
    LISTED = "an attempt ends for lack of stock only if a consistent list shows none"
    OWN_IN_LIST = "before it ends for lack of stock, an attempt looks for its own claim and unit"
    RESTAMP = "an attempt that re-uses a claim writes its own mark on it first"
    OWNED_RELEASE = "only the attempt that made a claim releases it"
    OWN_GENERATION = "stock is claimed only if it is ready with its present spec"
    GUARDED_RELEASE = "a claim is released at the version that its own write left"
    UNKNOWN_KEPT = "after a create of unknown outcome the claim stays until the grace ends"
    CREATE_BOUND = "no create is sent that could land after the grace"
    LIVE_TOMBSTONE = "the tombstone is read live before anything is created"
    TOMBSTONE_DECIDES = "no answer contains a unit once its operation has a tombstone"
    TOMBSTONE_FIRST = "a deletion writes the tombstone before it deletes the unit"
    TOMBSTONE_GATE = "a unit whose operation has a tombstone for its name is deleted, not started"
    STARTED_WINS = "of several units of an operation a started one takes precedence"
    CONFLICT_WAIT = "rivals wait until no request of an earlier leader can start another one"
    LOST_START = "rivals wait while a start may land whose answer was lost"
    ONE_TURN = "a leader handles one unit of an operation at a time"
    LIVE_RIVALS = "with rivals, which of them has started is read live"
    LOSER_NEVER_STARTS = "a unit that lost never starts, even after the winner was deleted"
    LOSER_KEEPS_CLAIM = "a unit that lost keeps its claim until it is deleted"
    STOCK_GATE = "a unit starts only while the stock it names is held for it"
    STARTED_CONSUMES = "stock is consumed only once its unit has started"
    RECORDED_CONSUMES = "stock is consumed only once its ordinal is recorded"
    GRACE = "a claim without a unit is freed only when no create can still name it"
    LIVE_LOOK = "a claim is freed only after a live read of its unit"
    GUARDED_FREE = "a claim is freed at the version at which it was seen"
    GUARDED_DELETE = "stock is deleted by uid and version"
    GUARDED_CHANGE = "stock takes its pool's spec at the version at which it was seen unclaimed"
    OWN_SETTLED = "a leader gives its lease back only when no write of its own can land"
    EARLIER_SETTLED = (
        "a leader gives its lease back only when no write of an earlier leader can land"
    )
    RELIST = "a new leader begins with a consistent list"
    RECORD_LATE = "an ordinal is recorded only when no create can be in flight"


ALL = frozenset(Clause)
