"""The ownership graph of all kinds, and the rules for dependents of deleted owners.

An owner that is not in the graph may only be late. So nothing is deleted for a missing owner
before the server was asked: the rules name the owners to ask for.
"""

from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

import attrs

from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta, OwnerReference

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

Kind: TypeAlias = tuple[str, str]  # apiVersion and kind


@attrs.frozen(kw_only=True, slots=True)
class GraphNode:
    """An object with its owners and finalizers."""

    kind: Kind
    key: Key
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    is_ending: bool = False

    @classmethod
    def of(cls, kind: Kind, metadata: ObjectMeta) -> "GraphNode":
        return cls(
            kind=kind,
            key=metadata.key,
            uid=metadata.uid,
            owners=metadata.ownerReferences,
            finalizers=metadata.finalizers,
            is_ending=metadata.deletionTimestamp is not None,
        )

    @property
    def waits_for_dependents(self) -> bool:
        return self.is_ending and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.is_ending and ORPHAN in self.finalizers

    def blocks(self, owner_uid: str) -> bool:
        """Return whether the object blocks the deletion of that owner."""
        return any(each.uid == owner_uid and each.blockOwnerDeletion for each in self.owners)


@attrs.frozen(kw_only=True, slots=True)
class Delete:
    node: GraphNode
    propagation: str


@attrs.frozen(kw_only=True, slots=True)
class Disown:
    """The action that removes the references to these owners."""

    node: GraphNode
    owner_uids: frozenset[str]


@attrs.frozen(kw_only=True, slots=True)
class Release:
    """The action that removes a finalizer whose work is done."""

    node: GraphNode
    finalizer: str


Action: TypeAlias = Delete | Disown | Release


@attrs.frozen(kw_only=True, slots=True)
class Decision:
    """The actions to take, or the owners to ask for before deciding again."""

    actions: tuple[Action, ...] = ()
    unknown_owners: tuple[OwnerReference, ...] = ()


class Graph:
    """Every object that owns or is owned; no method awaits."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def put(self, node: GraphNode) -> set[str]:
        """Store the object, and return the uids to decide about again."""
        before = self._nodes.get(node.uid)
        if before == node:
            return set()
        if before is not None:
            self._unlink(before)
        self._nodes[node.uid] = node
        for owner in node.owners:
            self._dependents.setdefault(owner.uid, {})[node.uid] = None
        concerned = {node.uid} if node.owners or node.is_ending else set()
        if node.is_ending:
            concerned |= self._waiting_owners(node) | set(self._dependents.get(node.uid, ()))
        return concerned | (self._waiting_owners(before) if before else set())

    def remove(self, uid: str) -> set[str]:
        """Remove the object; return the uids of dependents and of owners that waited for it."""
        node = self._nodes.pop(uid, None)
        dependents = set(self._dependents.get(uid, ()))
        if node is None:
            return dependents
        self._unlink(node)
        return dependents | self._waiting_owners(node)

    def get(self, uid: str) -> GraphNode | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[GraphNode]:
        found = (self._nodes.get(each) for each in self._dependents.get(uid, ()))
        return [node for node in found if node is not None]

    def _unlink(self, node: GraphNode) -> None:
        for owner in node.owners:
            held = self._dependents.get(owner.uid, {})
            held.pop(node.uid, None)
            if not held:
                self._dependents.pop(owner.uid, None)

    def _waits(self, uid: str) -> bool:
        owner = self._nodes.get(uid)
        return owner is not None and (owner.waits_for_dependents or owner.orphans_dependents)

    def _waiting_owners(self, node: GraphNode) -> set[str]:
        return {owner.uid for owner in node.owners if self._waits(owner.uid)}


def decide(
    graph: Graph, uid: str, *, absent: Collection[str] = (), present: Collection[str] = ()
) -> Decision:
    """Decide about one object.

    `absent` holds uids of owners that the server does not have, and `present` of those it has.
    """
    node = graph.get(uid)
    if node is None:
        return Decision()
    if node.orphans_dependents:
        return _orphaning(node, graph.dependents(uid))
    if node.waits_for_dependents:
        return _waiting(node, graph.dependents(uid))
    if node.is_ending or not node.owners:
        return Decision()
    return _owned(node, graph, absent, present)


def _orphaning(owner: GraphNode, dependents: Iterable[GraphNode]) -> Decision:
    freed = tuple(Disown(node=each, owner_uids=frozenset({owner.uid})) for each in dependents)
    return Decision(actions=freed or (Release(node=owner, finalizer=ORPHAN),))


def _waiting(owner: GraphNode, dependents: list[GraphNode]) -> Decision:
    """Wait until no dependent blocks, then release the owner; the others are deleted later."""
    blocking = [each for each in dependents if each.blocks(owner.uid)]
    if not blocking:
        return Decision(actions=(Release(node=owner, finalizer=FOREGROUND),))
    return Decision()


def _owned(
    node: GraphNode, graph: Graph, absent: Collection[str], present: Collection[str]
) -> Decision:
    """Keep the object while one of its owners stays."""
    known = {owner.uid: graph.get(owner.uid) for owner in node.owners}
    unknown_owners = [
        uid for uid, found in known.items() if not found and uid not in (*absent, *present)
    ]
    if unknown_owners:
        return Decision(
            unknown_owners=tuple(each for each in node.owners if each.uid in unknown_owners)
        )
    ending = {uid for uid, found in known.items() if found and found.waits_for_dependents}
    gone = {uid for uid, found in known.items() if not found and uid in absent}
    if known.keys() - ending - gone:
        useless = frozenset(ending | gone)
        return Decision(actions=(Disown(node=node, owner_uids=useless),) if useless else ())
    has_dependents = bool(graph.dependents(node.uid))
    propagation = "Foreground" if ending and has_dependents else "Background"
    return Decision(actions=(Delete(node=node, propagation=propagation),))
