"""What a live child lacks of the desired one, as a merge patch, or nothing.

A child carries one annotation of ours: what was last applied, the hash of the inputs it was made
from, and the revision of the code that made it. While the inputs are the same, drift is judged
against what was last applied, whatever a newer or older version of our code would write today:
an upgrade restarts nobody's Pod.
"""

import hashlib
from typing import Any, Final

import attrs

from gpuruntime.models import codec
from gpuruntime.models.json import JsonObject, JsonValue
from gpuruntime.models.labels import GROUP
from gpuruntime.models.quantities import is_quantity, parse_quantity

APPLIED: Final = f"{GROUP}/applied"
# The rule by which `inputs_hash` is made; a hash of another rule proves no change.
INPUTS_RULE: Final = "1"
# All annotations of an object together may have 256 KiB.
MOST_REMEMBERED: Final = 200_000
# Members whose texts are quantities: `1000m` and `1` are the same there.
QUANTITIES: Final = frozenset({"limits", "requests", "sizeLimit"})


@attrs.frozen(kw_only=True, slots=True)
class Child:
    """A child as it should be; `inputs` is the hash of what asked for it."""

    inputs: str
    revision: int
    body: dict[str, Any]  # JSON, decoded from the annotation

    def annotated(self) -> JsonObject:
        """The body to create, with the annotation that remembers it."""
        return _with_annotation(self.body, encode_applied(self))


def inputs_hash(spec: object) -> str:
    """Only what differs from its default counts, so that a new field changes no old hash."""
    digest = hashlib.sha256(codec.encode_canonical(_differing(spec))).hexdigest()
    return f"{INPUTS_RULE}:{digest[:16]}"


def encode_applied(child: Child) -> str:
    """Without the child itself where it is too large for an annotation."""
    record: JsonObject = {"inputs": child.inputs, "revision": child.revision, "body": child.body}
    text = codec.encode_canonical(record).decode()
    if len(text) > MOST_REMEMBERED:
        return codec.encode_canonical({**record, "body": {}}).decode()
    return text


def decode_applied(text: str) -> Child | None:
    """None for a text that is not ours: the child is then compared with what we want."""
    try:
        return codec.decode(text.encode(), Child)
    except codec.MalformedObjectError:
        return None


def patch_towards(desired: Child, live: JsonObject) -> JsonObject:
    """The merge patch that ends the drift of the live child; empty when there is none."""
    present = _annotation(live)
    applied = decode_applied(present)
    target = _target(desired, applied)
    patch = _difference(target.body, live, applied.body if applied else {})
    annotation = encode_applied(target)
    return patch if annotation == present else _with_annotation(patch, annotation)


def _target(desired: Child, applied: Child | None) -> Child:
    if applied is None or _asks_anew(desired, applied):
        return desired
    is_forgotten = not applied.body and applied.revision == desired.revision
    return desired if is_forgotten else applied


def _asks_anew(desired: Child, applied: Child) -> bool:
    """An unknown rule counts as unchanged: two versions of ours never fight over a Pod."""
    is_known = applied.inputs.startswith(f"{INPUTS_RULE}:")
    return is_known and applied.inputs != desired.inputs


def _difference(
    desired: JsonObject, live: JsonObject, last: JsonObject, parent: str = ""
) -> JsonObject:
    patch: JsonObject = {}
    for name, wanted in desired.items():
        present, before = live.get(name), last.get(name)
        if isinstance(wanted, dict) and isinstance(present, dict):
            inner = _difference(
                wanted,
                present,
                before if isinstance(before, dict) else {},
                _quantities_in(parent, name),
            )
            if inner:
                patch[name] = inner
        elif not _matches(_quantities_in(parent, name), wanted, present, before):
            patch[name] = wanted
    for name in last.keys() - desired.keys():
        if name in live:
            patch[name] = None
    return patch


def _matches(name: str, wanted: JsonValue, present: JsonValue, before: JsonValue) -> bool:
    """The server adds defaults and leaves empty members out: neither is drift."""
    if isinstance(wanted, dict) and isinstance(present, dict):
        was = before if isinstance(before, dict) else {}
        is_same = all(
            _matches(_quantities_in(name, key), value, present.get(key), was.get(key))
            for key, value in wanted.items()
        )
        return is_same and not (was.keys() - wanted.keys()) & present.keys()
    if isinstance(wanted, list) and isinstance(present, list):
        was_list = before if isinstance(before, list) and len(before) == len(wanted) else wanted
        return len(wanted) == len(present) and all(
            _matches(name, *each) for each in zip(wanted, present, was_list, strict=True)
        )
    if present is None:
        return wanted in ({}, [], "", None)
    return wanted == present or _is_same_quantity(name, wanted, present)


def _quantities_in(parent: str, name: str) -> str:
    """The members of `limits` are quantities, whatever their own names."""
    return parent if parent in QUANTITIES else name


def _is_same_quantity(name: str, wanted: JsonValue, present: JsonValue) -> bool:
    return (
        name in QUANTITIES
        and isinstance(wanted, str)
        and isinstance(present, str)
        and is_quantity(wanted)
        and is_quantity(present)
        and parse_quantity(wanted) == parse_quantity(present)
    )


def _differing(value: object) -> JsonValue:
    """Nested values without the members that are at their defaults."""
    if isinstance(value, list | tuple):
        return [_differing(item) for item in value]
    model: type = type(value)
    if not attrs.has(model):
        return value  # type: ignore[return-value]  # a spec holds plain JSON otherwise
    return {
        field.name: _differing(getattr(value, field.name))
        for field in attrs.fields(model)
        if getattr(value, field.name) != field.default
    }


def _annotation(body: JsonObject) -> str:
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(APPLIED) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


def _with_annotation(body: JsonObject, text: str) -> JsonObject:
    metadata = body.get("metadata")
    inner = dict(metadata) if isinstance(metadata, dict) else {}
    annotations = inner.get("annotations")
    inner["annotations"] = {
        **(annotations if isinstance(annotations, dict) else {}),
        APPLIED: text,
    }
    return {**body, "metadata": inner}
