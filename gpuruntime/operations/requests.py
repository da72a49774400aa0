"""What callers ask for, under the names that their JSON bodies have.

`parse_*` takes a JSON document and raises StrictError with every problem at once. Where leaving
a member out and clearing it with null differ, what is left out is UNSET.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeAlias,
    TypeVar,
    get_args,
    get_type_hints,
)

import attrs

from gpuruntime.models.definitions import rules
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.definitions.texts import Image, LabelValue, Name, QuantityText, SpecName
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.pools import MOST_REPLICAS, Refill
from gpuruntime.models.kinds.templates import Template
from gpuruntime.models.kinds.units import MOST_GPUS, Access, StorageMount
from gpuruntime.models.kubernetes.quantities import EXBIBYTE, InvalidQuantityError, parse_quantity
from gpuruntime.operations.options import Namespaces
from gpuruntime.strict.constraints import Check, read
from gpuruntime.strict.structure import (
    FieldError,
    ManyFieldsError,
    Problem,
    StrictError,
    Structurer,
)

ValueT = TypeVar("ValueT")

ENVELOPE: Final = ("specName", "cpu", "memory", "gpu", "gpuProduct")


class Unset(Enum):
    """The type of UNSET alone."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
# null clears the field, UNSET leaves it as it is.
Given: TypeAlias = ValueT | Unset | None


def _reserved_operation(text: Any) -> str:
    if isinstance(text, str) and text.startswith("gpuruntime:"):
        return "must not begin with 'gpuruntime:': such operations are the platform's own"
    return ""


def _reserved_name(text: Any) -> str:
    if isinstance(text, str) and text.startswith("op-"):
        return "must not begin with 'op-': such names are derived from an operationID"
    return ""


def _bad_quantity(text: Any) -> str:
    if not isinstance(text, str):
        return ""
    try:
        is_sound = parse_quantity(text).is_positive_below(EXBIBYTE)
    except InvalidQuantityError as error:
        return str(error)
    return "" if is_sound else f"quantity {text!r} must be above 0 and below 1Ei"


def _platform_owner(function: Any) -> str:
    if isinstance(function, dict) and "workerOf" in function:
        return "is set by the platform when it makes a worker: leave it out"
    return ""


OperationID: TypeAlias = Annotated[
    str,
    Schema(
        minLength=1,
        maxLength=128,
        pattern="^[A-Za-z0-9._:-]+$",
        description="Names this request: sent again, it is answered again and not done again.",
    ),
    Check(_reserved_operation),
]
ChosenName: TypeAlias = Annotated[
    Name, Schema(description="Absent, it is derived from the operationID."), Check(_reserved_name)
]
PoolName: TypeAlias = Annotated[ChosenName, Schema(maxLength=rules.LONGEST_POOL_NAME)]
# The check says more than the pattern could, which is for readers of the document.
PositiveQuantity: TypeAlias = Annotated[
    QuantityText,
    Schema(minLength=1),
    Check(_bad_quantity),
    Schema(pattern=r"^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"),
]
Gpus: TypeAlias = Annotated[int, Schema(minimum=0, maximum=MOST_GPUS)]
RequiredImage: TypeAlias = Annotated[Image, Schema(minLength=1)]
Function: TypeAlias = Annotated[Serverless, Check(_platform_owner, ".workerOf")]
StorageMounts: TypeAlias = Annotated[
    tuple[StorageMount, ...],
    Schema(maxItems=16),
    rules.UNIQUE_STORAGES,
    rules.UNIQUE_MOUNT_PATHS,
    rules.APART_MOUNT_PATHS,
]
Replicas: TypeAlias = Annotated[int, Schema(minimum=0, maximum=MOST_REPLICAS)]
RefillPolicy: TypeAlias = Annotated[str, Schema(enum=tuple(Refill))]


@attrs.frozen(kw_only=True, slots=True)
class CreateUnit:
    """One ready stock unit's envelope for one unit that runs the image."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        rules.ONE_WORKER_FOR_STORAGE,
        rules.SOCKET_OFF_STORAGES,
    )

    operationID: OperationID
    name: ChosenName = ""
    namespace: Name = ""
    specName: SpecName
    stockNamespace: Name = ""
    image: RequiredImage
    template: Template = Template()
    access: Access = Access()
    storageMounts: StorageMounts = ()
    serverless: Function | None = None
    tenant: LabelValue = ""


@attrs.frozen(kw_only=True, slots=True)
class UpdateUnit:
    """Fields given replace, fields left out stay, null clears; the envelope cannot change."""

    image: Given[Image] = UNSET
    template: Given[Template] = UNSET
    access: Given[Access] = UNSET
    storageMounts: Given[StorageMounts] = UNSET
    serverless: Given[Function] = UNSET
    suspended: Given[bool] = UNSET


@attrs.frozen(kw_only=True, slots=True)
class SeedStock:
    """So many stock units, made once."""

    operationID: OperationID
    specName: SpecName
    cpu: PositiveQuantity = ""
    memory: PositiveQuantity = ""
    gpu: Gpus = 0
    gpuProduct: LabelValue = ""
    replicas: Annotated[int, Schema(minimum=1, maximum=MOST_REPLICAS)]


@attrs.frozen(kw_only=True, slots=True)
class CreatePool:
    """A durable wish for stock: kept up, or made once."""

    operationID: OperationID
    name: PoolName = ""
    namespace: Name = ""
    specName: SpecName
    image: Image = ""
    cpu: PositiveQuantity = ""
    memory: PositiveQuantity = ""
    gpu: Gpus = 0
    gpuProduct: LabelValue = ""
    replicas: Replicas
    template: Template = Template()
    refill: RefillPolicy = Refill.ALWAYS


@attrs.frozen(kw_only=True, slots=True)
class UpdatePool:
    """Fields given replace, fields left out stay, null clears; the envelope cannot change."""

    image: Given[Image] = UNSET
    template: Given[Template] = UNSET
    replicas: Replicas | Unset = UNSET
    refill: RefillPolicy | Unset = UNSET


def parse_create_unit(document: object, namespaces: Namespaces) -> CreateUnit:
    places = {"namespace": namespaces.instance, "stockNamespace": namespaces.stock}
    further = (*misplaced(document, places), *_unknown_port(document))
    return read(document, CreateUnit, _structurer, further)


def parse_update_unit(document: object) -> UpdateUnit:
    return read(document, UpdateUnit, _structurer, _fixed(document))


def parse_seed_stock(document: object) -> SeedStock:
    return read(document, SeedStock, _structurer)


def parse_create_pool(document: object, namespaces: Namespaces) -> CreatePool:
    places = {"namespace": namespaces.stock}
    return read(document, CreatePool, _structurer, misplaced(document, places))


def parse_update_pool(document: object) -> UpdatePool:
    return read(document, UpdatePool, _structurer, _fixed(document))


def misplaced(document: object, places: Mapping[str, str]) -> Iterator[Problem]:
    """A request may name the places of ours, and no others."""
    members = document if isinstance(document, dict) else {}
    for field, place in places.items():
        if members.get(field, place) != place:
            yield Problem(field=field, message=f"must be {place}, or left out")


def _unknown_port(document: object) -> Iterator[Problem]:
    """Where our kind's rule only holds a primaryPort to ports that there are, a caller has both.

    What is of another shape is named by whoever judges shapes.
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


def _fixed(document: object) -> Iterator[Problem]:
    members = document if isinstance(document, dict) else {}
    for field in ENVELOPE:
        if field in members:
            message = "cannot change: create another object for another envelope"
            yield Problem(field=field, message=message)


def structurer_of(*updates: type) -> Structurer:
    """The converter that knows what each of them may be given, cleared or left out."""
    structurer = Structurer()
    for model in updates:
        for annotation in get_type_hints(model, include_extras=True).values():
            inner, *others = get_args(annotation)
            parse = partial(_given, structurer, inner, can_clear=NoneType in others)
            structurer.register(annotation, parse)
    return structurer


def _given(structurer: Structurer, inner: Any, value: object, *, can_clear: bool) -> Any:
    if value is None and can_clear:
        return None
    try:
        return structurer.structure(value, inner)
    except StrictError as error:
        raise ManyFieldsError(
            tuple(FieldError(each.field, each.message) for each in error.problems)
        ) from error


_structurer = structurer_of(UpdateUnit, UpdatePool)
