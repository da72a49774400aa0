"""The ways to install this version, as `kubectl apply -k manifests/overlays/<name>` does."""

from enum import StrEnum
from pathlib import Path

from gpuruntime.errors import ConfigurationError
from gpuruntime.manifests import kustomization

# Beside this module in a wheel, at the root of a checkout.
PLACES = (Path(__file__).with_name("files"), Path(__file__).parents[2] / "manifests")


class Overlay(StrEnum):
    MINIMAL = "minimal"
    FULL = "full"


def render(overlay: Overlay) -> str:
    """Return the overlay as text for `kubectl apply -f -`."""
    return kustomization.text_of(kustomization.documents(folder() / "overlays" / overlay))


def folder() -> Path:
    for place in PLACES:
        if (place / "overlays").is_dir():
            return place
    raise ConfigurationError("the manifests are missing here: install gpuruntime from its wheel")
