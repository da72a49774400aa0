"""The documents of each overlay, read once."""

from functools import cache
from pathlib import Path
from typing import Any

from gpuruntime.manifests import kustomization

MANIFESTS = Path(__file__).parents[3] / "manifests"
NAMES = ("minimal", "full")


@cache
def everything(overlay: str) -> tuple[dict[str, Any], ...]:
    return tuple(kustomization.documents(MANIFESTS / "overlays" / overlay))


def documents(kind: str, overlay: str = "full") -> list[dict[str, Any]]:
    return [one for one in everything(overlay) if one["kind"] == kind]
