"""An operator's overlay over the manifests: the settings and secret files of each role."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

from tests.rooms.manifests.overlays import MANIFESTS

SYSTEM = "runtime-system"
SECRETS = "/etc/gpuruntime-secrets"
BASES = {
    "control-plane": ("manager", "api"),
    "serverless": ("activator", "results"),
}


@attrs.frozen(kw_only=True)
class Part:
    """A role's changes to the settings of the manifests, and its secret files by name."""

    settings: Mapping[str, Any] = attrs.field(factory=dict)
    secrets: Mapping[str, str] = attrs.field(factory=dict)


def bases_of(parts: Mapping[str, Part]) -> list[str]:
    """Return the folders of the manifests that have the Pods of these roles."""
    return [base for base, roles in BASES.items() if not parts.keys().isdisjoint(roles)]


def write(folder: Path, parts: Mapping[str, Part]) -> None:
    """Replace the folder by one for `kubectl apply -k`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    document: dict[str, Any] = {"resources": [], "configMapGenerator": [], "secretGenerator": []}
    for base in bases_of(parts):
        document["resources"].append(os.path.relpath(MANIFESTS / base, folder))
        for role in BASES[base]:
            part = parts.get(role, Part())
            text = (MANIFESTS / base / f"{role}-configuration.yaml").read_text()
            settings = {**yaml.safe_load(text), **part.settings}
            (folder / f"{role}.yaml").write_text(yaml.safe_dump(settings))
            configuration = {**_named(role), "behavior": "replace", "files": [f"{role}.yaml"]}
            document["configMapGenerator"].append(configuration)
            if part.secrets:
                files = [_secret(folder / role, *each) for each in part.secrets.items()]
                document["secretGenerator"].append({**_named(role), "files": files})
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))


def _named(role: str) -> dict[str, Any]:
    return {"name": f"gpuruntime-{role}", "namespace": SYSTEM}


def _secret(folder: Path, name: str, text: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return f"{folder.name}/{name}"
