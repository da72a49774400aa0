"""An object at one version, and the change from one version to the next."""

from collections.abc import Mapping
from functools import cached_property

import attrs

from gpuruntime.embedded.apiserver.documents import Document, decode, encode


@attrs.frozen(slots=True, eq=False)
class Stored:
    """An encoded object; it is immutable, so that lists, watches and snapshots share the bytes.

    `path` is `namespace/name`, or the bare name of an object without a namespace.
    """

    path: str
    version: int
    body: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]

    @property
    def namespace(self) -> str:
        return split(self.path)[0]

    @property
    def name(self) -> str:
        return split(self.path)[1]

    def document(self) -> Document:
        """Return a fresh copy that the caller may change."""
        document: Document = decode(self.body)
        return document

    def at(self, version: int) -> "Stored":
        """Return the same object, stamped with the version of its removal."""
        document = self.document()
        document["metadata"]["resourceVersion"] = str(version)
        return attrs.evolve(self, version=version, body=encode(document))


@attrs.frozen(slots=True, eq=False)
class Change:
    """A change of an object; a creation has no `before`, a deletion no `after`."""

    version: int
    path: str
    before: Stored | None
    after: Stored | None

    @cached_property
    def last(self) -> Stored:
        """Return the object for watches that no longer select it; there must be a `before`."""
        if self.before is None:
            raise ValueError(f"{self.path} was created by this change: nothing came before it")
        return self.before.at(self.version)


def path_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def split(path: str) -> tuple[str, str]:
    """Return the namespace and the name."""
    namespace, _, name = path.rpartition("/")
    return namespace, name
