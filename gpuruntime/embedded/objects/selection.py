"""The objects that a list or watch selects, and the event that a watch sends for a change."""

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from gpuruntime.embedded.apiserver.status_errors import bad_request
from gpuruntime.embedded.objects.registry import Target
from gpuruntime.embedded.objects.versions import Change, Stored, split
from gpuruntime.models.kubernetes.selectors import (
    FieldSelector,
    InvalidSelectorError,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
WatchEvent = tuple[EventType, Stored]

OF_METADATA: Final = ("metadata.name", "metadata.namespace")


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Selection:
    """Namespace, name and selectors; an empty or None member selects everything."""

    namespace: str = ""
    name: str = ""
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None

    @property
    def is_filtered(self) -> bool:
        """Return whether selectors are set: counting the rest then needs a full scan."""
        return self.labels is not None or self.fields is not None

    def matches(self, stored: Stored) -> bool:
        """Return whether labels and fields match; namespace and name are not compared."""
        if self.labels is not None and not self.labels.matches(stored.labels):
            return False
        return self.fields is None or self.fields.matches(_fields(stored))

    def event_for(self, change: Change) -> WatchEvent | None:
        """Return the watch event for a change, or None if the selection does not contain it.

        An object that starts to match is ADDED; one that no longer matches is DELETED.
        """
        if not self._is_about(change.path):
            return None
        before, after = change.before, change.after
        was_seen = before is not None and self.matches(before)
        if after is not None and self.matches(after):
            return ("MODIFIED" if was_seen else "ADDED"), after
        return ("DELETED", change.last) if was_seen else None

    def _is_about(self, path: str) -> bool:
        namespace, name = split(path)
        return self.namespace in ("", namespace) and self.name in ("", name)


def _fields(stored: Stored) -> dict[str, str]:
    return {
        "metadata.namespace": stored.namespace,
        "metadata.name": stored.name,
        **stored.fields,
    }


def _unselectable(target: Target, field: str) -> str:
    if target.kind.field_paths or target.kind.is_custom:
        return f"field label not supported: {field}"
    known = ", ".join(f'"{each}"' for each in OF_METADATA)
    return f'"{field}" is not a known field selector: only {known}'


def selection_of(target: Target, query: Mapping[str, str]) -> Selection:
    """Return the selection of a request; `metadata.name` in a field selector narrows the name."""
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except InvalidSelectorError as error:
        raise bad_request(str(error)) from error
    name = ""
    for requirement in fields.requirements:
        if requirement.field not in (*OF_METADATA, *target.kind.field_paths):
            raise bad_request(_unselectable(target, requirement.field))
        if requirement.field == "metadata.name" and requirement.is_equal:
            name = requirement.value
    return Selection(
        namespace=target.namespace,
        name=name,
        labels=labels if labels.requirements else None,
        fields=fields if fields.requirements else None,
    )
