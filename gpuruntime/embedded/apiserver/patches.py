"""Merge patches (RFC 7386) and JSON patches (RFC 6902)."""

from typing import Any

from gpuruntime.embedded.apiserver.documents import copy
from gpuruntime.errors import GpuRuntimeError


class UnfitPatchError(GpuRuntimeError):
    """The patch does not fit the document to which it is applied."""


def merge_patch(value: Any, patch: Any) -> Any:
    """Apply a merge patch: null removes, objects merge, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), change)
    return merged


def json_patch(document: Any, operations: list[Any]) -> Any:
    """Apply all operations, or raise UnfitPatchError if one of them fails."""
    root = {"": document}
    for operation in operations:
        try:
            _apply(root, operation)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise UnfitPatchError(f"operation {operation} does not fit: {error}") from error
    return root.get("")


def _apply(root: Any, operation: Any) -> None:
    path = _tokens(operation["path"])
    match operation["op"]:
        case "add":
            _add(root, path, copy(operation["value"]))
        case "remove":
            _remove(root, path)
        case "replace":
            _remove(root, path)
            _add(root, path, copy(operation["value"]))
        case "move":
            _add(root, path, _remove(root, _tokens(operation["from"])))
        case "copy":
            _add(root, path, copy(_find(root, _tokens(operation["from"]))))
        case "test":
            if _find(root, path) != operation["value"]:
                raise UnfitPatchError(f"testing value {operation['path']} failed")
        case other:
            raise UnfitPatchError(f"unknown operation {other!r}")


def _tokens(pointer: str) -> list[str]:
    """Split a JSON pointer; the first token leads from the root's holder to the root."""
    if pointer and not pointer.startswith("/"):
        raise UnfitPatchError(f"{pointer!r} is no pointer: it must begin with '/'")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")]


def _find(root: Any, path: list[str]) -> Any:
    for token in path:
        root = root[_index(root, token)]
    return root


def _index(holder: Any, token: str) -> Any:
    if not isinstance(holder, list):
        return token
    if not token.isdecimal():
        raise UnfitPatchError(f"{token!r} is no index")
    return int(token)


def _add(root: Any, path: list[str], value: Any) -> None:
    holder, last = _find(root, path[:-1]), path[-1]
    if not isinstance(holder, list):
        holder[last] = value
    elif last == "-":
        holder.append(value)
    elif _index(holder, last) <= len(holder):
        holder.insert(_index(holder, last), value)
    else:
        raise UnfitPatchError(f"index {last} is past the end of the list")


def _remove(root: Any, path: list[str]) -> Any:
    holder = _find(root, path[:-1])
    return holder.pop(_index(holder, path[-1]))
