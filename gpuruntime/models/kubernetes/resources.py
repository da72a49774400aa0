"""Which path of the API server serves a kind, and into which value its objects decode."""

from typing import Generic, TypeVar

import attrs

from gpuruntime.models.kubernetes.metadata import KubernetesObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


@attrs.frozen(kw_only=True, slots=True)
class Resource(Generic[ObjectT]):
    """Two resources may read different slices of one kind: the type is the reader's choice."""

    group: str
    version: str
    kind: str
    plural: str
    type: type[ObjectT]
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The collection's path without a name; all namespaces without a namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        parts = [part for part in (self.plural, name, subresource) if part]
        return f"{root}{scope}/{'/'.join(parts)}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
