"""Problems of live objects that their schema's bounds do not exclude.

The API server enforces the bounds. Quantities are deliberately left to the controllers. The rules
are evaluated again, since a cluster's definitions may be older than this process.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from gpuruntime.models.definitions.rules import TWINS
from gpuruntime.models.definitions.schemas import StructuralSchema, schema_of_kind
from gpuruntime.models.encoding.codec import to_json
from gpuruntime.models.kinds.envelopes import HasEnvelope
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.quantities import EXBIBYTE, InvalidQuantityError, parse_quantity
from gpuruntime.strict.structure import Problem

_SCHEMAS: Final[dict[type, StructuralSchema]] = {
    model: schema_of_kind(model) for model in (GPUUnit, StockPool, GPUStorage)
}


def unit_problems(unit: GPUUnit) -> tuple[Problem, ...]:
    """Return the problems of a unit, or nothing if it is valid; `reason_of` names their reason."""
    return _unit_problems(unit.metadata.name, unit.spec)


@lru_cache(maxsize=1_024)  # a reconciler asks again at each of its passes
def _unit_problems(name: str, spec: GPUUnitSpec) -> tuple[Problem, ...]:
    return (*_rule_problems(GPUUnit, name, spec), *_envelope_problems(spec))


def pool_problems(pool: StockPool) -> tuple[Problem, ...]:
    rules = _rule_problems(StockPool, pool.metadata.name, pool.spec)
    return (*rules, *_envelope_problems(pool.spec))


def storage_problems(storage: GPUStorage) -> tuple[Problem, ...]:
    size = storage.spec.size
    missing = () if size else (Problem(field="spec.size", message="is needed, such as 10Gi"),)
    rules = _rule_problems(GPUStorage, storage.metadata.name, storage.spec)
    return (*rules, *_quantity_problems("spec.size", size), *missing)


def reason_of(problems: tuple[Problem, ...]) -> UnitReason:
    """Return the reason to fix first: the envelope, then storages, then the function."""
    fields = [problem.field for problem in problems]
    if all(field.startswith("spec.serverless") for field in fields):
        return UnitReason.SERVERLESS_CONFIG_INVALID
    if all(field.startswith(("spec.serverless", "spec.storageMounts")) for field in fields):
        return UnitReason.STORAGE_MOUNT_INVALID
    return UnitReason.INVALID_SPEC


def broken_rules(
    schema: StructuralSchema, value: Any, *, old: Any = None, path: str = ""
) -> Iterator[Problem]:
    """Yield the broken rules of plain JSON within the bounds, with its defaults and without nulls.

    Transition rules are evaluated only if the old value has the member, too. They are never
    evaluated below a list, since items of two lists are never the same items.
    """
    for rule in schema.get("x-kubernetes-validations", ()):
        is_judged = old is not None or "oldSelf" not in rule["rule"]
        if is_judged and not TWINS[rule["rule"]](value, old):
            field = path + rule.get("fieldPath", "")
            yield Problem(field=field.removeprefix("."), message=rule["message"])
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, member in schema.get("properties", {}).items():
            if name in value:
                below = f"{path}.{name}" if path else name
                yield from broken_rules(member, value[name], old=before.get(name), path=below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from broken_rules(schema["items"], item, path=f"{path}[{index}]")


def _rule_problems(kind: type, name: str, spec: object) -> Iterator[Problem]:
    document = {"metadata": {"name": name}, "spec": to_json(spec)}
    return broken_rules(_SCHEMAS[kind], document)


def _envelope_problems(spec: HasEnvelope) -> Iterator[Problem]:
    yield from _quantity_problems("spec.cpu", spec.cpu)
    yield from _quantity_problems("spec.memory", spec.memory)


def _quantity_problems(field: str, text: str) -> Iterator[Problem]:
    try:
        is_sound = text == "" or parse_quantity(text).is_positive_below(EXBIBYTE)
    except InvalidQuantityError as error:
        yield Problem(field=field, message=str(error))
    else:
        if not is_sound:
            yield Problem(field=field, message=f"quantity {text!r} must be above 0 and below 1Ei")
