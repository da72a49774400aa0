"""What a live child lacks of the desired one, as a merge patch, or nothing.

A child carries one annotation of ours: what was last applied, the hash of the inputs it was made
from, and the revision of the code that made it. While the inputs are the same, drift is judged
against what was last applied, whatever a newer or older version of our code would write today:
an upgrade restarts nobody's Pod. Neither does a change of the inputs that changes no member but
those that come from the child's surroundings.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.codec import default_of
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kinds.labels import GROUP
from gpuruntime.models.kubernetes.quantities import is_quantity, parse_quantity

APPLIED: Final = f"{GROUP}/applied"
# The rule by which `inputs_hash` is made; a hash of another rule proves no change.
INPUTS_RULE: Final = "1"
# Bytes; all annotations of an object together may have 256 KiB.
MOST_REMEMBERED: Final = 200_000
# Members whose texts are quantities: `1000m` and `1` are the same there.
QUANTITIES: Final = frozenset({"limits", "requests", "sizeLimit"})


Path: TypeAlias = tuple[str, ...]


@attrs.frozen(kw_only=True, slots=True)
class Child:
    """A child as it should be; `inputs` is the hash of what asked for it.

    `generation` is that of the spec which asked; `surroundings` are the members that nobody asked
    for, such as a preferred node.
    """

    inputs: str
    generation: int
    revision: int
    body: JsonObject
    surroundings: tuple[Path, ...] = ()

    def annotated(self) -> JsonObject:
        """The body to create, with the annotation that remembers it."""
        return _with_annotation(self.body, encode_applied(_applied(self)))


@attrs.frozen(kw_only=True, slots=True)
class Applied:
    """What the annotation remembers; the body is empty where it is too large for one.

    `shape` is the hash of the body without its surroundings.
    """

    inputs: str
    generation: int = 0
    revision: int
    shape: str = ""
    body: dict[str, Any]  # JSON, decoded from the annotation


def inputs_hash(spec: object) -> str:
    """Only what differs from its default counts, so that a new field changes no old hash."""
    return f"{INPUTS_RULE}:{_digest(_differing(spec))}"


def encode_applied(applied: Applied) -> str:
    encoded = codec.encode_canonical(codec.to_json(applied))
    if len(encoded) > MOST_REMEMBERED:
        encoded = codec.encode_canonical(codec.to_json(attrs.evolve(applied, body={})))
    return encoded.decode()


def decode_applied(text: str) -> Applied | None:
    """None for a text that is not ours: the child is then compared with what we want."""
    try:
        return codec.decode(text.encode(), Applied)
    except codec.MalformedObjectError:
        return None


def patch_towards(desired: Child, live: JsonObject) -> JsonObject:
    """The merge patch that ends the drift of the live child; empty when there is none."""
    applied = decode_applied(_annotation(live))
    body, remembered = _target(desired, applied)
    patch = _difference(body, live, applied.body if applied else {})
    if remembered == applied:
        return patch
    return _with_annotation(patch, encode_applied(remembered))


def patch_back(live: JsonObject) -> JsonObject:
    """The merge patch towards what was last applied, whatever is asked for since."""
    applied = decode_applied(_annotation(live))
    return _difference(applied.body, live, applied.body) if applied else {}


def is_behind(desired: Child, live: JsonObject) -> bool:
    """Whether something else is asked for than was last applied."""
    applied = decode_applied(_annotation(live))
    if applied is None:
        return bool(_difference(desired.body, live, {}))
    return _asks_anew(desired, applied) and applied.shape != _applied(desired).shape


def _target(desired: Child, applied: Applied | None) -> tuple[JsonObject, Applied]:
    """What the child is held to, and what is remembered of it."""
    wanted = _applied(desired)
    if applied is None:
        return desired.body, wanted
    is_same_shape = applied.shape == wanted.shape
    asks_anew = _asks_anew(desired, applied)
    if asks_anew and not is_same_shape:
        return desired.body, wanted
    kept = applied.body
    if not kept and is_same_shape:
        kept = _without(desired.body, desired.surroundings)
    if asks_anew or _is_known(applied):
        applied = attrs.evolve(applied, inputs=desired.inputs, generation=desired.generation)
    return kept, applied


def _asks_anew(desired: Child, applied: Applied) -> bool:
    """A hash by an unknown rule proves no change, so that two versions of ours never fight over
    a Pod; there, only a later generation of the spec does.
    """
    if _is_known(applied):
        return applied.inputs != desired.inputs
    return 0 < applied.generation < desired.generation


def _is_known(applied: Applied) -> bool:
    return applied.inputs.startswith(f"{INPUTS_RULE}:")


def _applied(child: Child) -> Applied:
    return Applied(
        inputs=child.inputs,
        generation=child.generation,
        revision=child.revision,
        shape=_digest(_without(child.body, child.surroundings)),
        body=dict(child.body),
    )


def _without(body: JsonObject, paths: Iterable[Path]) -> JsonObject:
    kept: JsonObject = dict(body)
    for name, *rest in paths:
        inner = kept.get(name)
        if not rest:
            kept.pop(name, None)
        elif isinstance(inner, dict):
            kept[name] = _without(inner, (tuple(rest),))
    return kept


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(codec.encode_canonical(value)).hexdigest()[:16]


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
    """The server keeps no resource finer than a thousandth: it rounds up."""
    return (
        name in QUANTITIES
        and isinstance(wanted, str)
        and isinstance(present, str)
        and is_quantity(wanted)
        and is_quantity(present)
        and parse_quantity(wanted).millis_rounded_up == parse_quantity(present).millis_rounded_up
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
        if getattr(value, field.name) != default_of(field)
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
