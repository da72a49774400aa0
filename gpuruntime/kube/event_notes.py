"""One Event to be: about what it is, is said where it is told."""

from typing import Any

import attrs

from gpuruntime.kube.events import EventRecorder, reference_to
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(slots=True)
class Note:
    """Told again, it is counted: what changes from time to time does not belong in its words."""

    reason: str
    message: str
    is_warning: bool = False


def tell(
    recorder: EventRecorder, resource: Resource[Any], about: KubernetesObject, note: Note
) -> None:
    """Never waits: the Event is sent when there is time."""
    reference = reference_to(resource, about.metadata)
    recorder.record(reference, note.reason, note.message, is_warning=note.is_warning)
