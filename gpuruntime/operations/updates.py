"""Updates of a spec replace the given fields and keep what others changed meanwhile."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, MalformedAnswerError, OutcomeUnknownError
from gpuruntime.models.definitions.schemas import schema_of
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.pools import StockPool, StockPoolSpec
from gpuruntime.models.kinds.storages import GPUStorage, GPUStorageSpec
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.requests.fields import UNSET
from gpuruntime.models.requests.pools import UpdatePool
from gpuruntime.models.requests.storages import UpdateStorage
from gpuruntime.models.requests.units import UpdateUnit
from gpuruntime.operations.errors import PreconditionFailedError
from gpuruntime.operations.objects import replacement
from gpuruntime.strict.structure import StrictError
from gpuruntime.strict.validation import broken_rules

ObjectT = TypeVar("ObjectT", GPUUnit, StockPool, GPUStorage)
SpecT = TypeVar("SpecT", GPUUnitSpec, StockPoolSpec, GPUStorageSpec)

_SCHEMAS = {model: schema_of(model) for model in (GPUUnitSpec, StockPoolSpec, GPUStorageSpec)}


def etag_of(value: KubernetesObject) -> str:
    """Return an ETag that changes with the spec, and not with the status."""
    return f'"{value.metadata.uid}.{value.metadata.generation}"'


def demand_match(value: KubernetesObject, if_match: Collection[str] | None, *, what: str) -> None:
    """Raise PreconditionFailedError unless the live object's ETag is in `if_match`."""
    if if_match is not None and etag_of(value) not in if_match:
        raise PreconditionFailedError(
            f"{what} {value.metadata.name} changed meanwhile, it is {etag_of(value)}: "
            "read it again"
        )


def changed(spec: SpecT, request: UpdateUnit | UpdatePool | UpdateStorage) -> SpecT:
    """Return the changed spec; null resets a field. Raise StrictError if it breaks a rule."""
    defaults = {field.name: field.default for field in attrs.fields(type(spec))}
    given = {
        name: defaults[name] if value is None else value
        for name, value in _members(request)
        if value is not UNSET
    }
    after = attrs.evolve(spec, **given)
    schema = _SCHEMAS[type(spec)]
    problems = tuple(broken_rules(schema, codec.to_json(after), old=codec.to_json(spec)))
    if problems:
        raise StrictError(problems)
    return after


async def rewrite(
    client: Client,
    resource: Resource[ObjectT],
    key: Key,
    edit: Callable[[ObjectT], ObjectT],
) -> ObjectT:
    """Replace the live object by the result of `edit`, which runs again for each newer version.

    Nothing is written if `edit` changes nothing. Conflicts are retried as long as others write, so
    the caller must bound the time. Raise KubeError, such as NotFoundError, and the errors of
    `edit`.
    """
    asked: tuple[ObjectT, ObjectT] | None = None
    while True:
        found = await client.get(resource, key)
        if asked is not None and _has_landed(found, *asked):
            return found
        edited = edit(found)
        if edited == found:
            return found
        try:
            return await client.replace(resource, key, replacement(resource, edited))
        except ConflictError:
            asked = None
        except (OutcomeUnknownError, MalformedAnswerError):
            asked = found, edited


def _has_landed(found: ObjectT, before: ObjectT, after: ObjectT) -> bool:
    """Return whether a write whose answer was lost has taken effect.

    Spec and annotations are compared, since some edits change only an annotation.
    """
    marks = after.metadata.annotations.items() - before.metadata.annotations.items()
    return found.spec == after.spec and marks <= found.metadata.annotations.items()


def _members(request: UpdateUnit | UpdatePool | UpdateStorage) -> list[tuple[str, Any]]:
    return [(field.name, getattr(request, field.name)) for field in attrs.fields(type(request))]
