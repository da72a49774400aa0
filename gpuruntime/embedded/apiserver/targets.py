"""What a request is about, and what a write answers."""

import attrs

from gpuruntime.embedded.objects.registry import Kind
from gpuruntime.embedded.objects.versions import Stored, path_of


@attrs.frozen(kw_only=True, slots=True)
class Target:
    """A collection has no name; all namespaces together have no namespace."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        return path_of(self.namespace, self.name)


@attrs.frozen(kw_only=True, slots=True)
class Written:
    """Of a dry run nothing is stored: the object says what would be."""

    stored: Stored
    is_new: bool = False
