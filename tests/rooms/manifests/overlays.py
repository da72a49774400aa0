"""The documents of each overlay as rendered, and of the folders that it is rendered from."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpuruntime.manifests import overlays

MANIFESTS = Path(__file__).parents[3] / "manifests"
NAMES = ("minimal", "full")


@cache
def everything(overlay: str) -> tuple[dict[str, Any], ...]:
    return tuple(yaml.safe_load_all(overlays.text_of(overlays.Overlay(overlay))))


def documents(kind: str, overlay: str = "full") -> list[dict[str, Any]]:
    return [one for one in everything(overlay) if one["kind"] == kind]


def sources(folder: str) -> list[dict[str, Any]]:
    """Return the documents of the files that the folder's kustomization lists, as they are."""
    place = MANIFESTS / folder
    names = yaml.safe_load((place / "kustomization.yaml").read_text())["resources"]
    files = [place / name for name in names if name.endswith(".yaml")]
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]
