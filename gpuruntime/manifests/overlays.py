"""The ways to install this version, as `kubectl apply -k manifests/overlays/<name>` does.

Each is checked in as `kubectl kustomize` renders it; docs/develop.md says how to render it again.
"""

from enum import StrEnum
from pathlib import Path


class Overlay(StrEnum):
    MINIMAL = "minimal"
    FULL = "full"


def text_of(overlay: Overlay) -> str:
    """Return the overlay as text for `kubectl apply -f -`."""
    return Path(__file__).with_name(f"{overlay}.yaml").read_text(encoding="utf-8")
