from typing import Any

import pytest

from gpuruntime.embedded.kubectl.columns import human_duration
from gpuruntime.embedded.kubectl.pod_columns import status_word
from gpuruntime.embedded.schemas.json_path import compiled, find

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 365 * 86_400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 1, "10m"),
        (2 * HOUR + 59 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + MINUTE, "7h1m"),
        (8 * HOUR + MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR, "2y"),
        (7 * YEAR + 3 * DAY, "7y3d"),
        (9 * YEAR + 3 * DAY, "9y"),
    ],
)
def test_an_age_is_shown_in_significant_units(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown


def pod(*, init: Any = None, main: Any = None, **status: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "m"}], "initContainers": [{"name": "i"}] if init else []}
    if init:
        status["initContainerStatuses"] = [{"name": "i", **init}]
    if main:
        status["containerStatuses"] = [{"name": "m", **main}]
    return {"metadata": {}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (pod(phase="Pending"), "Pending"),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(main={"state": {"waiting": {"reason": "ErrImagePull"}}}), "ErrImagePull"),
        (pod(main={"state": {"terminated": {"exitCode": 3}}}), "ExitCode:3"),
        (pod(main={"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}), "Error"),
        (pod(init={"state": {"running": {}}}, phase="Pending"), "Init:0/1"),
        (pod(init={"state": {"terminated": {"exitCode": 2}}}), "Init:ExitCode:2"),
        (
            pod(init={"state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
            "Init:CrashLoopBackOff",
        ),
        (pod(phase="Running", init={"state": {"terminated": {"exitCode": 0}}}), "Running"),
    ],
    ids=[
        "phase",
        "reason of the Pod",
        "waiting container",
        "exit code",
        "reason of a terminated container",
        "running init container",
        "failed init container",
        "waiting init container",
        "completed init container",
    ],
)
def test_the_status_of_a_pod_is_its_most_specific_reason(
    document: dict[str, Any], word: str
) -> None:
    assert status_word(document) == word


def test_a_deleted_pod_is_shown_as_terminating_until_it_has_ended() -> None:
    leaving = pod(phase="Running")
    leaving["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    assert status_word(leaving) == "Terminating"
    leaving["status"]["phase"] = "Succeeded"
    assert status_word(leaving) == "Succeeded"


CONDITIONS = [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.conditions[?(@.type=='Other')].status", "False"),
        ('.status.conditions[?(@.type=="Nothing")].status', None),
        (".status.conditions[0].type", "Ready"),
        (".status.conditions[9].type", None),
        (".status.conditions[*].status", "True"),
        (".metadata.annotations.example\\.com/x", "y"),
        (".metadata['annotations']", {"example.com/x": "y"}),
        (".spec.nothing.at.all", None),
    ],
    ids=[
        "matching item",
        "no matching item",
        "index",
        "index out of range",
        "every item",
        "escaped dot",
        "quoted name",
        "absent members",
    ],
)
def test_a_column_finds_its_value(path: str, found: object) -> None:
    document = {
        "metadata": {"annotations": {"example.com/x": "y"}},
        "status": {"conditions": CONDITIONS},
    }
    assert find(document, path) == found


def test_a_path_that_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        compiled(".status.conditions[?(@.type~'x')]")
