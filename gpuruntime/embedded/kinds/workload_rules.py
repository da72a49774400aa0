"""Defaults and checks of Deployments, ReplicaSets and Jobs."""

from collections.abc import Iterator
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.kinds.pod_defaults import fill_template
from gpuruntime.embedded.kinds.pod_rules import spec_faults
from gpuruntime.embedded.schemas.faults import Fault, invalid_value, not_supported, required
from gpuruntime.models.kubernetes.selectors import (
    InvalidSelectorError,
    LabelSelector,
    requirement_of,
    selector_of,
)

IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
STRATEGIES: Final = ("Recreate", "RollingUpdate")
UNMATCHED: Final = "`selector` does not match template `labels`"
JOB_NAME: Final = "job-name"
CONTROLLER_UID: Final = "controller-uid"
OF_BATCH: Final = "batch.kubernetes.io/"
IN_JOBS: Final = ("OnFailure", "Never")


def fill_deployment(document: Document, old: Document | None) -> None:
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec["strategy"]
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", "25%")
        rolling.setdefault("maxUnavailable", "25%")
    fill_template(spec["template"]["spec"])


def judge_deployment(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    yield from _replicated_faults(spec, "deployment", old)
    strategy = spec["strategy"]
    if strategy["type"] not in STRATEGIES:
        yield not_supported("spec.strategy", strategy, list(STRATEGIES))
    elif strategy["type"] == "Recreate" and "rollingUpdate" in strategy:
        why = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
        yield Fault("spec.strategy.rollingUpdate", "FieldValueForbidden", why)


def fill_replica_set(document: Document, old: Document | None) -> None:
    document["spec"].setdefault("replicas", 1)
    fill_template(document["spec"]["template"]["spec"])


def judge_replica_set(document: Document, old: Document | None) -> Iterator[Fault]:
    yield from _replicated_faults(document["spec"], "deployment", old)


def fill_job(document: Document, old: Document | None) -> None:
    """Fill in defaults; a new Job selects its Pods by its uid unless `manualSelector` is set."""
    metadata, spec = document["metadata"], document["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    failed = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", failed)
    fill_template(spec["template"]["spec"])
    if old is None and not spec["manualSelector"]:
        _select_by_uid(metadata, spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _select_by_uid(metadata: Document, spec: Document) -> None:
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for prefix in ("", OF_BATCH):
        labels.setdefault(prefix + JOB_NAME, metadata.get("name", ""))
        labels.setdefault(prefix + CONTROLLER_UID, metadata["uid"])
    selected = spec.setdefault("selector", {}).setdefault("matchLabels", {})
    selected.setdefault(OF_BATCH + CONTROLLER_UID, metadata["uid"])


def judge_job(document: Document, old: Document | None) -> Iterator[Fault]:
    spec = document["spec"]
    for name in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
        if spec.get(name, 0) < 0:
            yield invalid_value(f"spec.{name}", spec[name], NOT_NEGATIVE)
    yield from _selector_faults(spec)
    yield from spec_faults(spec["template"]["spec"], "spec.template.spec")
    restarts = spec["template"]["spec"]["restartPolicy"]
    place = "spec.template.spec.restartPolicy"
    if restarts == "Always":
        yield required(place, 'valid values: "OnFailure", "Never"')
    elif restarts not in IN_JOBS:
        yield not_supported(place, restarts, list(IN_JOBS))
    if old is not None:
        names = ["selector", "completionMode", "podFailurePolicy"]
        if not (old["spec"]["suspend"] and "startTime" not in old.get("status", {})):
            names.append("template")
        if spec["completionMode"] == "NonIndexed":
            names.append("completions")
        yield from _changed(spec, old["spec"], *names)


def _replicated_faults(spec: Document, named: str, old: Document | None) -> Iterator[Fault]:
    if spec["replicas"] < 0:
        yield invalid_value("spec.replicas", spec["replicas"], NOT_NEGATIVE)
    if "selector" not in spec:
        yield required("spec.selector")
        labels = spec["template"]["metadata"].get("labels")
        yield invalid_value("spec.template.metadata.labels", labels, UNMATCHED)
    elif not any(spec["selector"].values()):
        why = f"empty selector is invalid for {named}"
        yield invalid_value("spec.selector", spec["selector"], why)
    else:
        yield from _selector_faults(spec)
    yield from spec_faults(spec["template"]["spec"], "spec.template.spec")
    restarts = spec["template"]["spec"]["restartPolicy"]
    if restarts in IN_JOBS:
        yield not_supported("spec.template.spec.restartPolicy", restarts, ["Always"])
    if old is not None:
        yield from _changed(spec, old["spec"], "selector")


def _selector_faults(spec: Document) -> Iterator[Fault]:
    labels = spec["template"]["metadata"].get("labels", {})
    try:
        selector = label_selector(spec.get("selector", {}))
    except InvalidSelectorError as error:
        yield invalid_value("spec.selector", spec["selector"], str(error))
        return
    if not selector.matches(labels):
        yield invalid_value("spec.template.metadata.labels", labels, UNMATCHED)


def _changed(spec: Document, old: Document, *names: str) -> Iterator[Fault]:
    for name in names:
        if spec.get(name) != old.get(name):
            yield invalid_value(f"spec.{name}", spec.get(name), IMMUTABLE)


def label_selector(document: Document) -> LabelSelector:
    """Return the selector that an object holds; raise InvalidSelectorError if it is malformed."""
    expressions: list[Any] = document.get("matchExpressions", [])
    requirements = (
        requirement_of(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in expressions
    )
    return selector_of(document.get("matchLabels", {}), tuple(requirements))
