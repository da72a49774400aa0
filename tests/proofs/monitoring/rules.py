"""The rules and the dashboard of the manifests, as values."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import yaml

from gpuruntime.models.encoding.json import JsonObject

FOLDER = Path(__file__).parents[3] / "manifests" / "monitoring"
# Values for the variables that Grafana puts into a query.
RATE_INTERVAL = ("$__rate_interval", "5m")


@attrs.frozen
class Alert:
    name: str
    expression: str
    severity: str
    annotations: dict[str, str]


@attrs.frozen
class Query:
    """An expression in one panel of the dashboard."""

    panel: str
    expression: str


def groups() -> JsonObject:
    """Return the rules in the form that Prometheus reads from a file."""
    spec: JsonObject = yaml.safe_load((FOLDER / "rules.yaml").read_text())["spec"]
    return spec


def alerts() -> tuple[Alert, ...]:
    document: Any = groups()
    return tuple(
        Alert(rule["alert"], rule["expr"], rule["labels"]["severity"], rule["annotations"])
        for group in document["groups"]
        for rule in group["rules"]
    )


def runbooks() -> str:
    """Return the address of the page of alerts, which is the operator's to set."""
    address: str = yaml.safe_load((FOLDER / "runbooks.yaml").read_text())["data"]["address"]
    return address


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return document


def queries() -> Iterator[Query]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield Query(panel["title"], target["expr"].replace(*RATE_INTERVAL))
