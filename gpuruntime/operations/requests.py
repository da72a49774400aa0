"""Reads requests of callers; each parser raises StrictError with all problems at once."""

import base64
from collections.abc import Iterator, Mapping
from typing import Final

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.texts import SecretDataKey
from gpuruntime.models.encoding.annotations import notes_of
from gpuruntime.models.kinds.secrets import MOST_BYTES, MOST_KEYS, SecretType
from gpuruntime.models.kinds.units import ENVELOPE
from gpuruntime.models.requests.pools import CreatePool, SeedStock, UpdatePool
from gpuruntime.models.requests.secrets import CreateSecret
from gpuruntime.models.requests.storages import CreateStorage, UpdateStorage
from gpuruntime.models.requests.units import CreateUnit, UpdateUnit
from gpuruntime.operations.options import Namespaces
from gpuruntime.strict.constraints import first_fault
from gpuruntime.strict.structure import Problem, read

_NEW_ENVELOPE: Final = "cannot change: create another object for another envelope"
_SHOWN_OF_KEY: Final = 64
_NEW_STORAGE: Final = "cannot change: create another storage, and copy this one where needed"


def parse_create_unit(document: object, namespaces: Namespaces) -> CreateUnit:
    places = {"namespace": namespaces.instance, "stockNamespace": namespaces.stock}
    further = (*_misplaced(document, places), *_unknown_port(document))
    return read(document, CreateUnit, further)


def parse_update_unit(document: object) -> UpdateUnit:
    return read(document, UpdateUnit, _fixed(document, ENVELOPE, _NEW_ENVELOPE))


def parse_seed_stock(document: object) -> SeedStock:
    return read(document, SeedStock)


def parse_create_pool(document: object, namespaces: Namespaces) -> CreatePool:
    places = {"namespace": namespaces.stock}
    return read(document, CreatePool, _misplaced(document, places))


def parse_update_pool(document: object) -> UpdatePool:
    return read(document, UpdatePool, _fixed(document, ENVELOPE, _NEW_ENVELOPE))


def parse_create_storage(document: object, namespaces: Namespaces) -> CreateStorage:
    places = {"namespace": namespaces.instance}
    further = (*_misplaced(document, places), *_nameless(document), *_copying_itself(document))
    return read(document, CreateStorage, further)


def parse_update_storage(document: object) -> UpdateStorage:
    fixed = _fixed(document, ("storageClassName", "prepare"), _NEW_STORAGE)
    return read(document, UpdateStorage, fixed)


def parse_create_secret(document: object) -> CreateSecret:
    """Return the request, or raise StrictError; no message quotes a value."""
    members = document if isinstance(document, dict) else {}
    return read(document, CreateSecret, (*_values_of_type(members), *_data_problems(members)))


def _values_of_type(members: Mapping[str, object]) -> Iterator[Problem]:
    is_registry = members.get("type", SecretType.OPAQUE) == SecretType.REGISTRY
    has_data = bool(members.get("data") or members.get("binaryData"))
    if is_registry and "registry" not in members:
        yield Problem(field="registry", message="is needed for the type registry")
    if is_registry and has_data:
        yield Problem(field="data", message="belongs to the type opaque: leave it out")
    if not is_registry and "registry" in members:
        yield Problem(field="registry", message="belongs to the type registry: leave it out")
    if not is_registry and not has_data:
        yield Problem(field="data", message="needs at least one key")


def _data_problems(members: Mapping[str, object]) -> Iterator[Problem]:
    found = {name: members.get(name) for name in ("data", "binaryData")}
    texts, coded = ({} if not isinstance(each, dict) else each for each in found.values())
    if len(texts) + len(coded) > MOST_KEYS:
        yield Problem(field="data", message=f"must have at most {MOST_KEYS} keys in all")
        return
    for name, entries in (("data", texts), ("binaryData", coded)):
        for key in entries:
            if fault := first_fault(key, notes_of(SecretDataKey)):
                field = f"{name}.{key[:_SHOWN_OF_KEY]}"
                yield Problem(field=field, message=f"the key {fault[1]}")
    decoded = {key: _decoded(each) for key, each in coded.items() if isinstance(each, str)}
    for key in coded:
        if key in texts:
            yield Problem(field=f"binaryData.{key}", message="is a key of data as well")
        elif key in decoded and decoded[key] is None:
            yield Problem(field=f"binaryData.{key}", message="must be base64, with its padding")
    size = sum(len(_encodable(each)) for each in texts.values() if isinstance(each, str))
    size += sum(len(each or b"") for each in decoded.values())
    if size > MOST_BYTES:
        yield Problem(field="data", message=f"must be at most {MOST_BYTES} bytes in all")


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def _encodable(text: str) -> bytes:
    """Return the bytes of a text; the reader reports half a surrogate pair in it."""
    return text.encode(errors="replace")


def _misplaced(document: object, places: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each namespace that the request names and that is not ours."""
    members = document if isinstance(document, dict) else {}
    for field, place in places.items():
        if members.get(field, place) != place:
            yield Problem(field=field, message=f"must be {place}, or left out")


def _fixed(document: object, fields: tuple[str, ...], message: str) -> Iterator[Problem]:
    members = document if isinstance(document, dict) else {}
    for field in fields:
        if field in members:
            yield Problem(field=field, message=message)


def _unknown_port(document: object) -> Iterator[Problem]:
    """Yield a problem if the primaryPort names no port.

    The rule of our kind applies only if ports are given; a caller must give both. Values of a
    wrong shape are reported by the schema.
    """
    match document:
        case {"access": {"primaryPort": str(primary)}} if primary:
            named = [port.get("name") for port in _ports(document) if isinstance(port, dict)]
            if primary not in named:
                message = "must be the name of one of template.ports"
                yield Problem(field="access.primaryPort", message=message)


def _ports(document: object) -> list[object]:
    match document:
        case {"template": {"ports": list(ports)}}:
            return ports
        case _:
            return []


def _nameless(document: object) -> Iterator[Problem]:
    if isinstance(document, dict) and "name" not in document and "operationID" not in document:
        message = "is needed, or an operationID to derive one from"
        yield Problem(field="name", message=message)


def _copying_itself(document: object) -> Iterator[Problem]:
    match document:
        case {"name": str(name), "prepare": {"fromStorageName": str(source)}} if name == source:
            yield Problem(field="prepare.fromStorageName", message=rules.NOT_ITSELF.message)
