"""What goes with its owner, what stays, and what an owner waits for."""

from gpuruntime.embedded.controllers.garbage_graph import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Disown,
    Graph,
    Release,
    Thing,
    judge,
)
from gpuruntime.models.kubernetes.metadata import Key, OwnerReference

KIND = ("v1", "ConfigMap")


def thing(uid: str, *owners: str, blocks: bool = True, finalizers: tuple[str, ...] = ()) -> Thing:
    """One with finalizers is being deleted."""
    references = tuple(
        OwnerReference(apiVersion="v1", kind="ConfigMap", name=each, uid=each,
                       blockOwnerDeletion=blocks)
        for each in owners
    )  # fmt: skip
    return Thing(
        kind=KIND,
        key=Key("default", uid),
        uid=uid,
        owners=references,
        finalizers=finalizers,
        is_ending=bool(finalizers),
    )


def graph(*things: Thing) -> Graph:
    made = Graph()
    for each in things:
        made.put(each)
    return made


def test_an_object_whose_owner_is_there_stays() -> None:
    assert judge(graph(thing("owner"), thing("child", "owner")), "child").deeds == ()


def test_a_missing_owner_is_looked_for_before_anything_is_deleted() -> None:
    alone = graph(thing("child", "owner"))
    judgement = judge(alone, "child")
    assert judgement.deeds == ()
    assert [each.uid for each in judgement.unseen] == ["owner"]

    child = thing("child", "owner")
    gone = judge(alone, "child", absent={"owner"})
    assert gone.deeds == (Delete(thing=child, propagation="Background"),)
    assert judge(alone, "child", present={"owner"}).deeds == ()


def test_one_owner_that_stays_is_enough_and_the_others_are_taken_off() -> None:
    child = thing("child", "a", "b")
    judgement = judge(graph(thing("a"), child), "child", absent={"b"})
    assert judgement.deeds == (Disown(thing=child, owner_uids=frozenset({"b"})),)


def test_the_dependents_of_an_owner_are_looked_at_when_it_goes() -> None:
    made = graph(thing("owner"), thing("one", "owner"), thing("two", "owner"))
    assert made.remove("owner") == {"one", "two"}


def test_an_owner_in_the_foreground_waits_for_those_that_block_it() -> None:
    owner = thing("owner", finalizers=(FOREGROUND,))
    child = thing("child", "owner")
    made = graph(thing("owner"), child, thing("free", "owner", blocks=False))
    assert made.put(owner) == {"owner", "child", "free"}
    assert judge(made, "owner").deeds == ()
    assert judge(made, "child").deeds == (Delete(thing=child, propagation="Background"),)

    assert made.remove("child") == {"owner"}
    assert judge(made, "owner").deeds == (Release(thing=owner, finalizer=FOREGROUND),)


def test_a_dependent_with_dependents_goes_in_the_foreground_as_well() -> None:
    middle = thing("middle", "owner")
    made = graph(thing("owner", finalizers=(FOREGROUND,)), middle, thing("leaf", "middle"))
    assert judge(made, "middle").deeds == (Delete(thing=middle, propagation="Foreground"),)


def test_an_owner_that_orphans_lets_its_dependents_go_first() -> None:
    owner, child = thing("owner", finalizers=(ORPHAN,)), thing("child", "owner")
    made = graph(owner, child)
    assert judge(made, "owner").deeds == (Disown(thing=child, owner_uids=frozenset({"owner"})),)
    assert judge(made, "child").deeds == ()

    assert made.put(thing("child")) == {"owner"}
    assert judge(made, "owner").deeds == (Release(thing=owner, finalizer=ORPHAN),)


def test_what_is_being_deleted_already_is_not_deleted_again() -> None:
    ending = thing("child", "owner", finalizers=("example.com/hold",))
    assert judge(graph(ending), "child", absent={"owner"}).deeds == ()


def test_a_change_that_concerns_nobody_wakes_nobody() -> None:
    made = graph(thing("owner"), thing("child", "owner"))
    assert made.put(thing("child", "owner")) == set()
    assert made.put(thing("lonely")) == set()
    assert made.remove("unknown") == set()
