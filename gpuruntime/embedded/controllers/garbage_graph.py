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
class Thing:
    """An object with its owners and finalizers."""

    kind: Kind
    key: Key
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    is_ending: bool = False

    @classmethod
    def of(cls, kind: Kind, metadata: ObjectMeta) -> "Thing":
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
    def lets_dependents_go(self) -> bool:
        return self.is_ending and ORPHAN in self.finalizers

    def blocks(self, owner_uid: str) -> bool:
        """Return whether the object blocks the deletion of that owner."""
        return any(each.uid == owner_uid and each.blockOwnerDeletion for each in self.owners)


@attrs.frozen(kw_only=True, slots=True)
class Delete:
    thing: Thing
    propagation: str


@attrs.frozen(kw_only=True, slots=True)
class Disown:
    """Remove the references to these owners."""

    thing: Thing
    owner_uids: frozenset[str]


@attrs.frozen(kw_only=True, slots=True)
class Release:
    """Remove a finalizer whose work is done."""

    thing: Thing
    finalizer: str


Deed: TypeAlias = Delete | Disown | Release


@attrs.frozen(kw_only=True, slots=True)
class Judgement:
    """The actions to take, or the owners to ask for before deciding again."""

    deeds: tuple[Deed, ...] = ()
    unseen: tuple[OwnerReference, ...] = ()


class Graph:
    """Every object that owns or is owned; no method awaits."""

    def __init__(self) -> None:
        self._things: dict[str, Thing] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def put(self, thing: Thing) -> set[str]:
        """Store the object, and return the uids to decide about again."""
        before = self._things.get(thing.uid)
        if before == thing:
            return set()
        if before is not None:
            self._unlink(before)
        self._things[thing.uid] = thing
        for owner in thing.owners:
            self._dependents.setdefault(owner.uid, {})[thing.uid] = None
        concerned = {thing.uid} if thing.owners or thing.is_ending else set()
        if thing.is_ending:
            concerned |= self._waiting_owners(thing) | set(self._dependents.get(thing.uid, ()))
        return concerned | (self._waiting_owners(before) if before else set())

    def remove(self, uid: str) -> set[str]:
        """Remove the object, and return the uids of its dependents and of owners that waited for
        it.
        """
        thing = self._things.pop(uid, None)
        dependents = set(self._dependents.get(uid, ()))
        if thing is None:
            return dependents
        self._unlink(thing)
        return dependents | self._waiting_owners(thing)

    def get(self, uid: str) -> Thing | None:
        return self._things.get(uid)

    def dependents(self, uid: str) -> list[Thing]:
        found = (self._things.get(each) for each in self._dependents.get(uid, ()))
        return [thing for thing in found if thing is not None]

    def _unlink(self, thing: Thing) -> None:
        for owner in thing.owners:
            held = self._dependents.get(owner.uid, {})
            held.pop(thing.uid, None)
            if not held:
                self._dependents.pop(owner.uid, None)

    def _waits(self, uid: str) -> bool:
        owner = self._things.get(uid)
        return owner is not None and (owner.waits_for_dependents or owner.lets_dependents_go)

    def _waiting_owners(self, thing: Thing) -> set[str]:
        return {owner.uid for owner in thing.owners if self._waits(owner.uid)}


def judge(
    graph: Graph, uid: str, *, absent: Collection[str] = (), present: Collection[str] = ()
) -> Judgement:
    """Decide about one object.

    `absent` holds uids of owners that the server does not have, and `present` of those it has.
    """
    thing = graph.get(uid)
    if thing is None:
        return Judgement()
    if thing.lets_dependents_go:
        return _orphaning(thing, graph.dependents(uid))
    if thing.waits_for_dependents:
        return _waiting(thing, graph.dependents(uid))
    if thing.is_ending or not thing.owners:
        return Judgement()
    return _owned(thing, graph, absent, present)


def _orphaning(owner: Thing, dependents: Iterable[Thing]) -> Judgement:
    freed = tuple(Disown(thing=each, owner_uids=frozenset({owner.uid})) for each in dependents)
    return Judgement(deeds=freed or (Release(thing=owner, finalizer=ORPHAN),))


def _waiting(owner: Thing, dependents: list[Thing]) -> Judgement:
    """Wait until no dependent blocks, then release the owner; the others are deleted later."""
    blocking = [each for each in dependents if each.blocks(owner.uid)]
    if not blocking:
        return Judgement(deeds=(Release(thing=owner, finalizer=FOREGROUND),))
    return Judgement()


def _owned(
    thing: Thing, graph: Graph, absent: Collection[str], present: Collection[str]
) -> Judgement:
    """Keep the object while one of its owners stays."""
    known = {owner.uid: graph.get(owner.uid) for owner in thing.owners}
    unseen = [uid for uid, found in known.items() if not found and uid not in (*absent, *present)]
    if unseen:
        return Judgement(unseen=tuple(each for each in thing.owners if each.uid in unseen))
    ending = {uid for uid, found in known.items() if found and found.waits_for_dependents}
    gone = {uid for uid, found in known.items() if not found and uid in absent}
    if known.keys() - ending - gone:
        useless = frozenset(ending | gone)
        return Judgement(deeds=(Disown(thing=thing, owner_uids=useless),) if useless else ())
    has_dependents = bool(graph.dependents(thing.uid))
    propagation = "Foreground" if ending and has_dependents else "Background"
    return Judgement(deeds=(Delete(thing=thing, propagation=propagation),))
