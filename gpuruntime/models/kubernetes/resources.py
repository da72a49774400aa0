"""A Resource has the path of a kind in the API server, and the type of its objects."""

from typing import Generic, TypeVar

import attrs

from gpuruntime.models.kubernetes.metadata import KubernetesObject

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


@attrs.frozen(kw_only=True, slots=True)
class Resource(Generic[ObjectT]):
    """A kind as one reader sees it; another resource may read other parts of the same kind."""

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
        """Return the path of an object or, without a name, of a collection.

        Without a namespace the collection spans all namespaces.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        parts = [part for part in (self.plural, name, subresource) if part]
        return f"{root}{scope}/{'/'.join(parts)}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
