"""Strategic merge patches, as kubectl sends them: lists of built-in kinds merge by their keys.

A member `$patch` says replace or delete, `$deleteFromPrimitiveList/x` takes bare values out of
list x, `$setElementOrder/x` orders it, and `$retainKeys` names all that may stay beside it.
"""

from collections.abc import Iterator
from typing import Any, Final

from gpuruntime.local.documents import Document, copy
from gpuruntime.local.go_types import ListOf, Member, Struct
from gpuruntime.local.patches import UnfitPatchError

DIRECTIVE: Final = "$patch"
RETAINED: Final = "$retainKeys"
DELETED: Final = "$deleteFromPrimitiveList/"
ORDER: Final = "$setElementOrder/"


def strategic_patch(value: Any, patch: Document, struct: Struct | None) -> Document:
    """Without a structure, as below a map, objects merge and lists are replaced."""
    if DIRECTIVE in patch:
        return {} if patch[DIRECTIVE] == "delete" else _bare(patch)
    merged = dict(value) if isinstance(value, dict) else {}
    if RETAINED in patch:
        merged = {name: merged[name] for name in merged if name in patch[RETAINED]}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        elif not name.startswith("$"):
            member = struct.members.get(name) if struct is not None else None
            merged[name] = _merged(merged.get(name), change, member)
    for name, gone in _directives(patch, DELETED):
        merged[name] = [each for each in merged.get(name) or () if each not in gone]
    for name, order in _directives(patch, ORDER):
        key = struct.members[name].merge_key if struct is not None else None
        merged[name] = _ordered(merged.get(name) or [], order, value, name, key)
    return merged


def _merged(value: Any, change: Any, member: Member | None) -> Any:
    of = member.type if member is not None else None
    if isinstance(change, dict):
        return strategic_patch(value, change, of if isinstance(of, Struct) else None)
    if isinstance(change, list) and member is not None and member.merge_key is not None:
        return _merged_list(value or [], change, member)
    return copy(change)


def _merged_list(value: list[Any], change: list[Any], member: Member) -> list[Any]:
    key = member.merge_key
    if not key:
        return value + [each for each in change if each not in value]
    if any(each.get(DIRECTIVE) == "replace" for each in change):
        return [_bare(each) for each in change if DIRECTIVE not in each]
    struct = member.type.item if isinstance(member.type, ListOf) else None
    merged = list(value)
    for each in change:
        if key not in each:
            raise UnfitPatchError(f"map: {each} does not contain declared merge key: {key}")
        places = [place for place, item in enumerate(merged) if item.get(key) == each[key]]
        if each.get(DIRECTIVE) == "delete":
            merged = [item for item in merged if item.get(key) != each[key]]
        elif places:
            of = struct if isinstance(struct, Struct) else None
            merged[places[0]] = strategic_patch(merged[places[0]], each, of)
        else:
            merged.append(_bare(each))
    return merged


def _ordered(
    items: list[Any], order: list[Any], value: Any, name: str, key: str | None
) -> list[Any]:
    """Named items in their order; those that only the server has keep their places among them."""

    def mark(item: Any) -> Any:
        return item.get(key) if key else item

    named = [mark(each) for each in order]
    before = [mark(each) for each in (value or {}).get(name) or ()]
    ours = [each for each in items if mark(each) in named]
    ours.sort(key=lambda each: named.index(mark(each)))
    theirs = [each for each in items if mark(each) not in named]
    merged: list[Any] = []
    for each in ours:
        place = before.index(mark(each)) if mark(each) in before else len(before)
        while theirs and before.index(mark(theirs[0])) < place:
            merged.append(theirs.pop(0))
        merged.append(each)
    return merged + theirs


def _directives(patch: Document, prefix: str) -> Iterator[tuple[str, list[Any]]]:
    for name, value in patch.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), value


def _bare(value: Any) -> Any:
    """What is new comes without directives and nulls."""
    if isinstance(value, dict):
        return {
            name: _bare(item)
            for name, item in value.items()
            if item is not None and not name.startswith("$")
        }
    return [_bare(each) for each in value] if isinstance(value, list) else value
