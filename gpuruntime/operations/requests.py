"""Reads requests of callers; each parser raises StrictError with all problems at once."""

from collections.abc import Iterator, Mapping
from typing import Final

from gpuruntime.models.definitions import rules
from gpuruntime.models.kinds.units import ENVELOPE
from gpuruntime.models.requests.pools import CreatePool, SeedStock, UpdatePool
from gpuruntime.models.requests.storages import CreateStorage, UpdateStorage
from gpuruntime.models.requests.units import CreateUnit, UpdateUnit
from gpuruntime.operations.options import Namespaces
from gpuruntime.strict.structure import Problem, read

_NEW_ENVELOPE: Final = "cannot change: create another object for another envelope"
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
