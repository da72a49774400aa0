from typing import Any

import pytest

from gpuruntime.embedded.apiserver.documents import copy
from gpuruntime.embedded.schemas.go_types import go_structs, read_document
from gpuruntime.embedded.schemas.member_types import MistypedError

POD: dict[str, Any] = {
    "metadata": {},
    "spec": {
        "hostNetwork": False,
        "nodeSelector": {},
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "main",
                "env": [{"name": "A", "value": ""}],
                "args": [],
                "ports": [{"containerPort": 80, "hostPort": 0}],
                "resources": {"limits": {"cpu": "1000m", "memory": 1073741824}},
                "securityContext": {},
            }
        ],
    },
    "status": {"startTime": "2025-01-01T01:00:00+01:00", "conditions": None},
}


def test_a_document_is_written_as_go_writes_it() -> None:
    pod = copy(POD)
    assert read_document(go_structs()["Pod"], pod) == []
    assert pod == {
        "metadata": {},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "A"}],
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1", "memory": "1073741824"}},
                    "securityContext": {},
                }
            ],
        },
        "status": {"startTime": "2025-01-01T00:00:00Z"},
    }


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "Job", "Service", "Event", "ConfigMap"])
def test_reading_a_document_twice_changes_nothing(kind: str) -> None:
    document = copy(POD) if kind == "Pod" else {"metadata": {}}
    read_document(go_structs()[kind], document)
    again = copy(document)
    read_document(go_structs()[kind], again)
    assert again == document


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"data": {"k": 1}}, "number into Go struct field ConfigMap.data of type string"),
        ({"data": []}, "array into Go struct field ConfigMap.data"),
        ({"immutable": "yes"}, "string into Go struct field ConfigMap.immutable of type bool"),
        ({"binaryData": {"k": "%"}}, "illegal base64 data"),
    ],
    ids=["number in a map", "list", "text for a flag", "base64"],
)
def test_a_member_of_another_type_is_reported_as_go_reports_it(
    members: dict[str, Any], message: str
) -> None:
    with pytest.raises(MistypedError, match=message):
        read_document(go_structs()["ConfigMap"], {"metadata": {}, **members})


def test_unknown_members_are_dropped_and_their_paths_returned() -> None:
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "x": 1}], "y": 2}, "z": 3}
    assert read_document(go_structs()["Pod"], pod) == ["spec.containers[0].x", "spec.y", "z"]
    assert pod["spec"] == {"containers": [{"name": "a", "resources": {}}]}
