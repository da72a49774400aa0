"""The CustomResourceDefinitions of our kinds, generated from the models."""

from typing import Any, Final

import attrs
import yaml

from gpuruntime.models.definitions.schemas import schema_of_kind
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.resources import Resource

CATEGORY: Final = "gpuruntime"


@attrs.frozen
class Column:
    """A column of `kubectl get`; a wide column is shown only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    is_wide: bool = False

    def to_json(self) -> JsonObject:
        priority: JsonObject = {"priority": 1} if self.is_wide else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path} | priority


@attrs.frozen(kw_only=True)
class Kind:
    """The parts of a kind's definition besides its schema."""

    resource: Resource[Any]
    short_name: str
    columns: tuple[Column, ...]


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
KINDS: Final = (
    Kind(
        resource=GPU_UNITS,
        short_name="gu",
        columns=(
            Column("Spec", ".spec.specName"),
            Column("Phase", ".status.phase"),
            Column("Access", ".status.accessURL"),
            Column("Node", ".status.nodeName", is_wide=True),
            _AGE,
        ),
    ),
    Kind(
        resource=STOCK_POOLS,
        short_name="sp",
        columns=(
            Column("Spec", ".spec.specName"),
            Column("Refill", ".spec.refill"),
            Column("Replicas", ".spec.replicas", "integer"),
            Column("Available", ".status.available", "integer"),
            Column("Claimed", ".status.claimed", "integer"),
            Column("Phase", ".status.phase"),
            Column("Stale", ".status.stale", "integer", is_wide=True),
            Column("Consumed", ".status.consumed", "integer", is_wide=True),
            _AGE,
        ),
    ),
    Kind(
        resource=GPU_STORAGES,
        short_name="gs",
        columns=(
            Column("Size", ".spec.size"),
            Column("Phase", ".status.phase"),
            Column("Held By", ".status.holder.name"),
            Column("Capacity", ".status.capacity", is_wide=True),
            Column("Class", ".spec.storageClassName", is_wide=True),
            _AGE,
        ),
    ),
)


def crds() -> tuple[JsonObject, ...]:
    return tuple(_crd(kind) for kind in KINDS)


def render() -> str:
    """Return one YAML document for each kind, always the same text."""
    return yaml.dump_all(crds(), Dumper=_Dumper, sort_keys=False, width=99)


class _Dumper(yaml.SafeDumper):
    """A dumper without anchors, so that readers of a definition find everything in its place."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _crd(kind: Kind) -> JsonObject:
    resource = kind.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(resource)},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [kind.short_name],
                "categories": [CATEGORY],
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> JsonObject:
    columns: list[JsonValue] = [column.to_json() for column in kind.columns]
    return {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of_kind(kind.resource.type)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
