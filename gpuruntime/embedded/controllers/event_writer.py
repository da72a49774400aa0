"""Kubernetes Events about the objects of one kind."""

from typing import Any

import attrs

from gpuruntime.kube.events import EventRecorder, Note, reference_to
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.resources import Resource


class EventWriter:
    """A writer of Events about objects of one kind, in the name of one component."""

    def __init__(self, recorder: EventRecorder, resource: Resource[Any]) -> None:
        self._recorder = recorder
        self._resource = resource

    def note(self, about: KubernetesObject, note: Note, *, field_path: str = "") -> None:
        """Queue an Event without waiting; the field path names a container of a Pod."""
        reference = attrs.evolve(
            reference_to(self._resource, about.metadata), fieldPath=field_path
        )
        self._recorder.record(reference, note.reason, note.message, is_warning=note.is_warning)
