"""The printer of each kind."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, encode_value
from gpuruntime.embedded.kubectl import cluster_columns, pod_columns, workload_columns
from gpuruntime.embedded.kubectl.columns import AGE, NAME, Column, Printer, age, age_of
from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.schemas import definition_objects as shapes
from gpuruntime.embedded.schemas.json_path import find

BUILT_IN: Final[Mapping[str, Printer]] = {
    "clusterroles": cluster_columns.CREATED,
    "configmaps": cluster_columns.CONFIG_MAPS,
    "customresourcedefinitions": cluster_columns.CREATED,
    "deployments": workload_columns.DEPLOYMENTS,
    "endpoints": cluster_columns.ENDPOINTS,
    "events": cluster_columns.EVENTS,
    "jobs": workload_columns.JOBS,
    "leases": cluster_columns.LEASES,
    "limitranges": cluster_columns.CREATED,
    "namespaces": cluster_columns.NAMESPACES,
    "networkpolicies": cluster_columns.NETWORK_POLICIES,
    "nodes": cluster_columns.NODES,
    "persistentvolumeclaims": cluster_columns.CLAIMS,
    "persistentvolumes": cluster_columns.VOLUMES,
    "poddisruptionbudgets": cluster_columns.DISRUPTION_BUDGETS,
    "pods": pod_columns.PODS,
    "priorityclasses": cluster_columns.PRIORITY_CLASSES,
    "replicasets": workload_columns.REPLICA_SETS,
    "resourcequotas": cluster_columns.QUOTAS,
    "resourceclaims": cluster_columns.DEVICE_CLAIMS,
    "resourceslices": cluster_columns.DEVICE_SLICES,
    "rolebindings": cluster_columns.ROLE_BINDINGS,
    "clusterrolebindings": cluster_columns.ROLE_BINDINGS,
    "roles": cluster_columns.CREATED,
    "secrets": cluster_columns.SECRETS,
    "serviceaccounts": cluster_columns.SERVICE_ACCOUNTS,
    "services": cluster_columns.SERVICES,
    "storageclasses": cluster_columns.STORAGE_CLASSES,
}


def printer_of(kind: Kind) -> Printer:
    if kind.is_custom:
        return custom_printer(kind.columns)
    return BUILT_IN.get(kind.plural, PLAIN)


def custom_printer(columns: tuple[shapes.Column, ...]) -> Printer:
    """Return the printer of a definition's columns; without columns it shows the age."""
    if not columns:
        return PLAIN

    def cells(document: Document, now: datetime) -> list[Any]:
        shown = (_cell(find(document, each.jsonPath), each.type, now) for each in columns)
        return [document["metadata"]["name"], *shown]

    own = (
        Column(each.name, each.type, each.format, each.priority, each.description)
        for each in columns
    )
    return Printer((NAME, *own), cells)


def _cell(value: Any, kind: str, now: datetime) -> Any:
    """Return the cell, or None if the value does not have the column's type."""
    match kind, value:
        case _, None:
            return None
        case "date", str():
            return age(value, now)
        case "integer", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return value
        case "boolean", bool():
            return value
        case "string", str():
            return value
        case "string", _:
            return encode_value(value).decode()
        case _:
            return None


def _plain_cells(document: Document, now: datetime) -> list[Any]:
    return [document["metadata"]["name"], age_of(document, now)]


PLAIN: Final = Printer((NAME, AGE), _plain_cells)
