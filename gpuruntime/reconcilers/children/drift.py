"""Drift of a live child from the desired one, as a merge patch.

A member that the last applied body does not have is no drift, unless it is guarded.

Each child carries one annotation of ours: the body that was last applied, the hash of its inputs,
and the revision of the code that created it. While the inputs are the same, drift is judged
against the last applied body. A newer or older version of our code may build another body, but an
upgrade restarts no Pod. A change of inputs that only affects the child's surroundings does not
count either.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeAlias

import attrs
import msgspec

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.encoding.members import default_of
from gpuruntime.models.kinds.labels import APPLIED
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.quantities import is_quantity, parse_quantity
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.reconcilers.children.guards import with_guarded

# Version of `inputs_hash`. Hashes of different versions cannot be compared.
INPUTS_RULE: Final = "1"
# Bytes. All annotations of an object together may have 256 KiB.
MOST_REMEMBERED: Final = 200_000
# Members whose values are quantities, in which `1000m` equals `1`.
QUANTITIES: Final = frozenset({"limits", "requests", "sizeLimit"})


Path: TypeAlias = tuple[str, ...]


class HasSpec(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> msgspec.Raw: ...


@attrs.frozen(kw_only=True, slots=True)
class Child:
    """A desired child; `inputs` is the hash of what its body was built from.

    `generation` is the generation of the owner's spec. `surroundings` are paths of members that no
    spec asks for, such as a preferred node.
    """

    inputs: str
    generation: int
    revision: int
    body: JsonObject
    surroundings: tuple[Path, ...] = ()

    def annotated(self) -> JsonObject:
        """Return the body to create, with the annotation that records it."""
        return _with_annotation(self.body, encode_applied(_applied(self)))


@attrs.frozen(kw_only=True, slots=True)
class Applied:
    """Content of the annotation; the body is empty if it is too large for one.

    `shape` is the hash of the body without its surroundings.
    """

    inputs: str
    generation: int = 0
    revision: int
    shape: str = ""
    body: dict[str, Any]  # JSON, decoded from the annotation


def body_of(resource: Resource[Any], live: HasSpec) -> JsonObject:
    """Return what our children set: the kind, the metadata that we compare, and the spec."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": codec.to_json(live.metadata),
        "spec": codec.decode_object(bytes(live.spec)),
    }


def drifting_parts(live: HasSpec) -> object:
    """Return the parts of a live child that may drift; while they are equal, so is the drift."""
    metadata = live.metadata
    return (metadata.labels, metadata.annotations, metadata.ownerReferences, bytes(live.spec))


def inputs_hash(spec: object) -> str:
    """Return a hash of the members that differ from their defaults.

    A new field with a default therefore changes no old hash.
    """
    return f"{INPUTS_RULE}:{_digest(_differing(spec))}"


def encode_applied(applied: Applied) -> str:
    encoded = codec.encode_canonical(codec.to_json(applied))
    if len(encoded) > MOST_REMEMBERED:
        encoded = codec.encode_canonical(codec.to_json(attrs.evolve(applied, body={})))
    return encoded.decode()


def recorded_owner(metadata: ObjectMeta) -> str:
    """Return the uid of the owner for which the child was last applied, or an empty string."""
    applied = decode_applied(metadata.annotations.get(APPLIED, ""))
    match applied.body if applied else {}:
        case {"metadata": {"ownerReferences": [{"uid": str(uid)}, *_]}}:
            return uid
        case _:
            return ""


def decode_applied(text: str) -> Applied | None:
    """Return None for a text that is not ours; the desired body is then compared instead."""
    try:
        return codec.decode(text.encode(), Applied)
    except codec.MalformedObjectError:
        return None


def patch_towards(desired: Child, live: JsonObject) -> JsonObject:
    """Return the merge patch that removes the drift, or an empty one."""
    applied = decode_applied(_annotation(live))
    body, remembered = _target(desired, applied)
    patch = _difference(body, live, with_guarded(applied.body if applied else {}, live))
    if remembered == applied:
        return patch
    return _with_annotation(patch, encode_applied(remembered))


def patch_back(live: JsonObject) -> JsonObject:
    """Return the merge patch to the last applied body, whatever the spec asks for now."""
    applied = decode_applied(_annotation(live))
    return _difference(applied.body, live, with_guarded(applied.body, live)) if applied else {}


def is_behind(desired: Child, live: JsonObject) -> bool:
    """Return whether the spec asks for something other than what was last applied."""
    applied = decode_applied(_annotation(live))
    if applied is None:
        return bool(_difference(desired.body, live, {}))
    return _asks_anew(desired, applied) and applied.shape != _applied(desired).shape


def _target(desired: Child, applied: Applied | None) -> tuple[JsonObject, Applied]:
    """Return the body that the child should have, and what the annotation should record."""
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
    """Return whether the inputs have changed since the last apply.

    A hash of an unknown rule proves no change, so that two versions of ours never fight over a
    Pod. In that case, only a later generation of the spec counts.
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
    """Return whether a value has no drift. Defaults of the server and empty members are none."""
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
    """Return the name to judge by: the members of `limits` are quantities under any name."""
    return parent if parent in QUANTITIES else name


def _is_same_quantity(name: str, wanted: JsonValue, present: JsonValue) -> bool:
    """Return whether both are the same in thousandths; the server rounds finer ones up."""
    return (
        name in QUANTITIES
        and isinstance(wanted, str)
        and isinstance(present, str)
        and is_quantity(wanted)
        and is_quantity(present)
        and parse_quantity(wanted).millis_rounded_up == parse_quantity(present).millis_rounded_up
    )


def _differing(value: object) -> JsonValue:
    """Return nested values without the members that have their default values."""
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
