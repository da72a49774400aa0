"""What is told about an object: notes, and the Events that they become."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from gpuruntime.models.json import JsonObject
from gpuruntime.models.metadata import KubernetesObject
from gpuruntime.models.moments import rfc3339
from gpuruntime.models.resources import Resource


@attrs.frozen(slots=True)
class Note:
    reason: str
    message: str
    is_warning: bool = False


@attrs.frozen(kw_only=True, slots=True)
class Subject:
    """What an event is about; a container of a Pod is named by its field path."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    field_path: str = ""

    @classmethod
    def of(
        cls, resource: Resource[Any], value: KubernetesObject, *, field_path: str = ""
    ) -> "Subject":
        return cls(
            api_version=resource.api_version,
            kind=resource.kind,
            namespace=value.metadata.namespace,
            name=value.metadata.name,
            uid=value.metadata.uid,
            resource_version=value.metadata.resourceVersion,
            field_path=field_path,
        )

    def document(self) -> Mapping[str, str]:
        members = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
            "fieldPath": self.field_path,
        }
        return {name: text for name, text in members.items() if text}


def event_of(
    subject: Subject, note: Note, *, name: str, component: str, host: str, now: datetime
) -> JsonObject:
    """Events about objects without a namespace are kept in `default`."""
    source = {"component": component, "host": host} if host else {"component": component}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": subject.namespace or "default"},
        "involvedObject": subject.document(),
        "reason": note.reason,
        "message": note.message,
        "type": "Warning" if note.is_warning else "Normal",
        "source": source,
        "reportingComponent": component,
        "reportingInstance": host,
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "count": 1,
    }
