"""The ways to install this version: what `kubectl apply -k manifests/overlays/<name>` applies."""

from enum import StrEnum
from pathlib import Path

from gpuruntime.errors import ConfigurationError
from gpuruntime.manifests import kustomization

# In a wheel beside this module; in a checkout where everybody looks for them.
PLACES = (Path(__file__).with_name("files"), Path(__file__).parents[2] / "manifests")


class Overlay(StrEnum):
    MINIMAL = "minimal"
    FULL = "full"


def render(overlay: Overlay) -> str:
    """For `kubectl apply -f -`."""
    return kustomization.text_of(kustomization.documents(folder() / "overlays" / overlay))


def folder() -> Path:
    for place in PLACES:
        if (place / "overlays").is_dir():
            return place
    raise ConfigurationError("the manifests are missing here: install gpuruntime from its wheel")
