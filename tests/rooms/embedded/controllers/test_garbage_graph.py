"""Decisions of the garbage collector: what is deleted, kept or released with its owner."""

from gpuruntime.embedded.controllers.garbage_graph import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Disown,
    Graph,
    GraphNode,
    Release,
    decide,
)
from gpuruntime.models.kubernetes.metadata import Key, OwnerReference

KIND = ("v1", "ConfigMap")


def node(
    uid: str, *owners: str, blocks: bool = True, finalizers: tuple[str, ...] = ()
) -> GraphNode:
    """Return a node; with finalizers it is being deleted."""
    references = tuple(
        OwnerReference(apiVersion="v1", kind="ConfigMap", name=each, uid=each,
                       blockOwnerDeletion=blocks)
        for each in owners
    )  # fmt: skip
    return GraphNode(
        kind=KIND,
        key=Key("default", uid),
        uid=uid,
        owners=references,
        finalizers=finalizers,
        is_ending=bool(finalizers),
    )


def graph(*nodes: GraphNode) -> Graph:
    made = Graph()
    for each in nodes:
        made.put(each)
    return made


def test_an_object_whose_owner_exists_stays() -> None:
    assert decide(graph(node("owner"), node("child", "owner")), "child").actions == ()


def test_a_missing_owner_is_looked_up_before_anything_is_deleted() -> None:
    alone = graph(node("child", "owner"))
    decision = decide(alone, "child")
    assert decision.actions == ()
    assert [each.uid for each in decision.unknown_owners] == ["owner"]

    child = node("child", "owner")
    gone = decide(alone, "child", absent={"owner"})
    assert gone.actions == (Delete(node=child, propagation="Background"),)
    assert decide(alone, "child", present={"owner"}).actions == ()


def test_one_remaining_owner_is_enough_and_the_other_references_are_removed() -> None:
    child = node("child", "a", "b")
    decision = decide(graph(node("a"), child), "child", absent={"b"})
    assert decision.actions == (Disown(node=child, owner_uids=frozenset({"b"})),)


def test_removing_an_owner_returns_its_dependents() -> None:
    made = graph(node("owner"), node("one", "owner"), node("two", "owner"))
    assert made.remove("owner") == {"one", "two"}


def test_a_foreground_deletion_waits_for_blocking_dependents() -> None:
    owner = node("owner", finalizers=(FOREGROUND,))
    child = node("child", "owner")
    made = graph(node("owner"), child, node("free", "owner", blocks=False))
    assert made.put(owner) == {"owner", "child", "free"}
    assert decide(made, "owner").actions == ()
    assert decide(made, "child").actions == (Delete(node=child, propagation="Background"),)

    assert made.remove("child") == {"owner"}
    assert decide(made, "owner").actions == (Release(node=owner, finalizer=FOREGROUND),)


def test_a_dependent_with_dependents_is_deleted_in_the_foreground_too() -> None:
    middle = node("middle", "owner")
    made = graph(node("owner", finalizers=(FOREGROUND,)), middle, node("leaf", "middle"))
    assert decide(made, "middle").actions == (Delete(node=middle, propagation="Foreground"),)


def test_an_orphaning_owner_is_released_after_its_dependents() -> None:
    owner, child = node("owner", finalizers=(ORPHAN,)), node("child", "owner")
    made = graph(owner, child)
    assert decide(made, "owner").actions == (Disown(node=child, owner_uids=frozenset({"owner"})),)
    assert decide(made, "child").actions == ()

    assert made.put(node("child")) == {"owner"}
    assert decide(made, "owner").actions == (Release(node=owner, finalizer=ORPHAN),)


def test_an_object_being_deleted_is_not_deleted_again() -> None:
    ending = node("child", "owner", finalizers=("example.com/hold",))
    assert decide(graph(ending), "child", absent={"owner"}).actions == ()


def test_a_change_without_effect_on_others_returns_no_uids() -> None:
    made = graph(node("owner"), node("child", "owner"))
    assert made.put(node("child", "owner")) == set()
    assert made.put(node("lonely")) == set()
    assert made.remove("unknown") == set()
