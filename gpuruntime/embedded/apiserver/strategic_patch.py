"""Strategic merge patches, as kubectl sends them: lists of built-in kinds merge by their keys.

`$patch` says replace or delete. `$deleteFromPrimitiveList/x` removes plain values from list x, and
`$setElementOrder/x` orders it. `$retainKeys` names the only members that may stay.
"""

from collections.abc import Iterator
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, copy
from gpuruntime.embedded.apiserver.patches import UnfitPatchError
from gpuruntime.embedded.schemas.go_types import ListOf, Member, Struct

DIRECTIVE: Final = "$patch"
RETAINED: Final = "$retainKeys"
DELETED: Final = "$deleteFromPrimitiveList/"
ORDER: Final = "$setElementOrder/"


def strategic_patch(value: Any, patch: Document, struct: Struct | None) -> Document:
    """Apply a patch; without a structure, as below a map, objects merge and lists are replaced."""
    match patch.get(DIRECTIVE, "merge"):
        case "delete":
            return {}
        case "replace":
            return dict(_bare(patch))
        case "merge":
            pass
        case other:
            raise UnfitPatchError(f"unknown patch type: {other}")
    merged = dict(value) if isinstance(value, dict) else {}
    if RETAINED in patch:
        retained = _plain(patch[RETAINED])
        merged = {name: merged[name] for name in merged if name in retained}
    for name, gone in _directives(patch, DELETED):
        merged[name] = [each for each in merged.get(name) or () if each not in gone]
    for name, change in _changes(patch):
        member = struct.members.get(name) if struct is not None else None
        if change is None:
            merged.pop(name, None)
        else:
            order = patch.get(ORDER + name)
            merged[name] = _merged(merged.get(name), change, member, order)
    return merged


def _changes(patch: Document) -> Iterator[tuple[str, Any]]:
    """Yield each changed member; a patch may also only reorder a list."""
    for name, change in patch.items():
        if not name.startswith("$"):
            yield name, change
    for name, _ in _directives(patch, ORDER):
        if name not in patch:
            yield name, []


def _merged(value: Any, change: Any, member: Member | None, order: list[Any] | None) -> Any:
    of = member.type if member is not None else None
    if isinstance(change, dict):
        return strategic_patch(value, change, of if isinstance(of, Struct) else None)
    if isinstance(change, list) and member is not None and member.merge_key is not None:
        return _merged_list(value or [], change, member, order)
    return copy(change)


def _merged_list(
    value: list[Any], change: list[Any], member: Member, order: list[Any] | None
) -> list[Any]:
    key = member.merge_key or ""
    if not key:
        _plain(change)
        merged = value + [each for each in change if each not in value]
        return _ordered(merged, value, change if order is None else order, key)
    _check_objects(change, key)
    if any(each.get(DIRECTIVE) == "replace" for each in change):
        return [_bare(each) for each in change if DIRECTIVE not in each]
    struct = member.type.item if isinstance(member.type, ListOf) else None
    merged = list(value)
    for each in change:
        merged = _with_item(merged, each, key, struct if isinstance(struct, Struct) else None)
    kept = [each for each in change if DIRECTIVE not in each]
    return _ordered(merged, value, kept if order is None else order, key)


def _with_item(items: list[Any], change: Document, key: str, struct: Struct | None) -> list[Any]:
    if key not in change:
        raise UnfitPatchError(f"map: {change} does not contain declared merge key: {key}")
    if change.get(DIRECTIVE) == "delete":
        return [item for item in items if item.get(key) != change[key]]
    if all(item.get(key) != change[key] for item in items):
        return [*items, _bare(change)]
    return [
        strategic_patch(item, change, struct) if item.get(key) == change[key] else item
        for item in items
    ]


def _ordered(items: list[Any], before: list[Any], order: list[Any], key: str) -> list[Any]:
    """Order the named items as the patch does; an unnamed one stays before those it preceded."""
    if key:
        _check_objects(order, key)
    else:
        _plain(order)
    named = [_key_of(each, key) for each in order]
    places = {_key_of(each, key): place for place, each in enumerate(before)}
    ours = [each for each in items if _key_of(each, key) in named]
    ours.sort(key=lambda each: named.index(_key_of(each, key)))
    theirs = [each for each in items if _key_of(each, key) not in named]
    merged: list[Any] = []
    for each in ours:
        place = places.get(_key_of(each, key), -1)
        while theirs and places[_key_of(theirs[0], key)] < place:
            merged.append(theirs.pop(0))
        merged.append(each)
    return merged + theirs


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UnfitPatchError(f"{value} is no list")
    return value


def _plain(value: Any) -> list[Any]:
    """Return a list whose items are compared whole: none is an object or a list."""
    if any(isinstance(each, dict | list) for each in _listed(value)):
        raise UnfitPatchError(f"{value} is no list of plain values")
    return _listed(value)


def _check_objects(value: Any, key: str) -> None:
    """Check that each item is an object whose merge key is a plain value."""
    for each in _listed(value):
        if not isinstance(each, dict) or isinstance(each.get(key), dict | list):
            raise UnfitPatchError(f"{each} is no object with a plain {key}")


def _key_of(item: Any, key: str) -> Any:
    return item.get(key) if key else item


def _directives(patch: Document, prefix: str) -> Iterator[tuple[str, list[Any]]]:
    for name, value in patch.items():
        if name.startswith(prefix):
            yield name.removeprefix(prefix), _listed(value)


def _bare(value: Any) -> Any:
    """Return a new value without directives and nulls."""
    if isinstance(value, dict):
        return {
            name: _bare(item)
            for name, item in value.items()
            if item is not None and not name.startswith("$")
        }
    return [_bare(each) for each in value] if isinstance(value, list) else value
