"""The scopes: each is as small as its purpose allows, and is explored completely."""

from typing import Final

from tests.proofs.model.state import Order, Scope

FIRST: Final = Order("op1", "body1", 0, 0)
RETRY: Final = Order("op1", "body1", 0, 1)
LATE_RETRY: Final = Order("op1", "body1", 0, 0)
OTHER_BODY: Final = Order("op1", "body2", 1, 1)
OTHER: Final = Order("op2", "body3", 1, 1)
SAME_REPLICA: Final = Order("op2", "body3", 1, 0)
SAME_NAME: Final = Order("op2", "body3", 0, 1)

SCOPES: Final = (
    Scope("retry", (FIRST, RETRY), stock=2, ordinals=2, seeded=2),
    Scope("retry, one stock unit", (FIRST, RETRY)),
    Scope("retry, in order", (FIRST, RETRY), stock=2, ordinals=2, seeded=2, is_ordered=True),
    Scope("retry and another", (FIRST, RETRY, OTHER)),
    Scope("refusals", (FIRST, RETRY, OTHER), has_refusals=True),
    Scope("two bodies", (FIRST, OTHER_BODY), stock=2, ordinals=2, seeded=2),
    Scope(
        "two bodies, one second", (FIRST, OTHER_BODY), stock=2, ordinals=2, seeded=2, has_ties=True
    ),
    Scope(
        "two bodies, two leaders",
        (FIRST, OTHER_BODY),
        stock=2,
        ordinals=2,
        seeded=2,
        has_ties=True,
        leaders=2,
        hands_over=True,
    ),
    Scope("one name", (FIRST, SAME_NAME), stock=2, ordinals=2, seeded=2, deleted=(0,)),
    Scope("winner deleted", (FIRST, OTHER_BODY), stock=2, ordinals=2, seeded=2, deleted=(0,)),
    Scope("loser deleted", (FIRST, OTHER_BODY), stock=2, ordinals=2, seeded=2, deleted=(1,)),
    Scope("deletion, one stock unit", (FIRST, RETRY), deleted=(0,)),
    Scope("deletion", (FIRST, RETRY), stock=2, ordinals=2, seeded=2, deleted=(0,)),
    Scope("late retry", (FIRST, RETRY, LATE_RETRY), leaders=0, deleted=(0,)),
    Scope("deletion, two leaders", (FIRST, OTHER), leaders=2, deleted=(0,)),
    Scope("touched", (FIRST,), touches=3),
    Scope("one replica", (FIRST, SAME_REPLICA), has_refusals=True),
    Scope(
        "shrinking",
        (FIRST, OTHER),
        stock=2,
        ordinals=2,
        seeded=2,
        is_refilled=True,
        is_seeding=True,
        replicas=1,
    ),
    Scope(
        "never", (OTHER,), stock=0, ordinals=2, seeded=0, replicas=2, is_seeding=True, leaders=2
    ),
    Scope(
        "never, deletion",
        (FIRST,),
        stock=0,
        ordinals=2,
        seeded=0,
        replicas=1,
        is_seeding=True,
        leaders=2,
        deleted=(0,),
    ),
    Scope(
        "hand-over",
        (FIRST,),
        stock=0,
        ordinals=2,
        seeded=0,
        replicas=1,
        is_seeding=True,
        leaders=3,
        hands_over=True,
        deleted=(0,),
    ),
    Scope(
        "refill",
        (OTHER,),
        stock=1,
        ordinals=3,
        seeded=1,
        replicas=1,
        is_seeding=True,
        is_refilled=True,
        leaders=2,
    ),
    Scope(
        "lost answers",
        (OTHER,),
        stock=0,
        ordinals=2,
        seeded=0,
        replicas=1,
        is_seeding=True,
        deleted=(1,),
        lost_answers=2,
    ),
    Scope(
        "lost start",
        (FIRST, OTHER_BODY),
        stock=2,
        ordinals=2,
        seeded=2,
        has_ties=True,
        lost_answers=1,
    ),
    Scope(
        "two workers", (FIRST, OTHER_BODY), stock=2, ordinals=2, seeded=2, has_ties=True, workers=2
    ),
    Scope(
        "pool, two workers",
        (OTHER,),
        stock=0,
        ordinals=2,
        seeded=0,
        replicas=2,
        is_seeding=True,
        workers=2,
        leaders=2,
    ),
    Scope(
        "pool, deletion",
        (FIRST, OTHER),
        ordinals=2,
        seeded=0,
        replicas=2,
        is_seeding=True,
        workers=2,
        deleted=(0,),
    ),
    Scope("hand", (FIRST, OTHER), has_manual_release=True),
    Scope("rolling", (FIRST,), is_rolling=True, leaders=2),
    Scope("rolling, retry", (FIRST, RETRY), is_rolling=True),
    Scope("rolling, another", (FIRST, OTHER), is_rolling=True),
)

BY_TITLE: Final = {scope.title: scope for scope in SCOPES}
