"""Features of kustomizations that ours do not use are refused, never ignored."""

from pathlib import Path

import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.manifests.kustomization import documents

MAP = "configMapGenerator: [{name: a, namespace: b, files: [file]%s}]"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("namePrefix: x-", "not supported: namePrefix"),
        ("images: [{name: a, newTag: b, newName: c}]", "not supported: images.newName"),
        ("patches: [{path: a, target: {kind: b}}]", "not supported: patches.target"),
        (MAP % ", envs: [c]", "not supported: configMapGenerator.envs"),
        (MAP % ", behavior: replace", "replace of ConfigMap a: not there"),
        ("vars: []\nreplicas: []", "not supported: replicas, vars"),
    ],
)
def test_an_unsupported_field_is_refused(tmp_path: Path, said: str, fault: str) -> None:
    (tmp_path / "kustomization.yaml").write_text(said)
    (tmp_path / "file").write_text("text")
    with pytest.raises(ConfigurationError, match=fault):
        documents(tmp_path)


def test_a_config_map_is_named_by_its_contents(tmp_path: Path) -> None:
    """kubectl 1.34 gives the same name to these contents."""
    (tmp_path / "kustomization.yaml").write_text(MAP % "")
    (tmp_path / "file").write_text("a: <b> & c\n")
    [made] = documents(tmp_path)
    assert made["metadata"]["name"] == "a-f686hkf8ch"
    assert made["data"] == {"file": "a: <b> & c\n"}
