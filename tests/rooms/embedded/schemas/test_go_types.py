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
def test_what_was_read_once_stays_as_it_is(kind: str) -> None:
    document = copy(POD) if kind == "Pod" else {"metadata": {}}
    read_document(go_structs()[kind], document)
    again = copy(document)
    read_document(go_structs()[kind], again)
    assert again == document


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"data": {"k": 1}}, "number into Go struct field ConfigMap.data of type string"),
        ({"data": []}, "array into Go struct field ConfigMap.data"),
        ({"immutable": "yes"}, "string into Go struct field ConfigMap.immutable of type bool"),
        ({"binaryData": {"k": "%"}}, "illegal base64 data"),
    ],
)
def test_a_member_of_another_type_is_told_as_go_tells_it(
    members: dict[str, Any], told: str
) -> None:
    with pytest.raises(MistypedError, match=told):
        read_document(go_structs()["ConfigMap"], {"metadata": {}, **members})


def test_what_no_type_has_falls_and_is_told_by_its_path() -> None:
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "x": 1}], "y": 2}, "z": 3}
    assert read_document(go_structs()["Pod"], pod) == ["spec.containers[0].x", "spec.y", "z"]
    assert pod["spec"] == {"containers": [{"name": "a", "resources": {}}]}
