"""Old lists, as from an API server whose cache lags behind."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.kube.transport import Request, Response

PAGING: Final = frozenset({"limit", "continue"})
METADATA_ONLY: Final = "PartialObjectMetadata"
ListedCollection: TypeAlias = tuple[str, str]


def collection_of(request: Request) -> ListedCollection:
    """Return which objects a list or a watch selects."""
    return request.path, dict(request.query).get("labelSelector", "")


class StaleLists:
    """Lists of an earlier moment, given to processes that list a collection again.

    A list of metadata alone is always current, because a process reads it before it leads.
    """

    def __init__(self) -> None:
        self._lists: dict[ListedCollection, Request] = {}
        self._kept: dict[ListedCollection, Response] = {}

    def note(self, request: Request) -> None:
        if METADATA_ONLY not in request.accept:
            self._lists.setdefault(collection_of(request), request)

    def keep(self, server: Server) -> None:
        """Keep the present lists, to give them later."""
        self._kept = {place: server.handle(_whole(each)) for place, each in self._lists.items()}

    def give(self, request: Request, followed: Mapping[ListedCollection, int]) -> Response | None:
        """Return a kept list once, or None; only a collection between two watches gets one."""
        place, query = collection_of(request), dict(request.query)
        if METADATA_ONLY in request.accept or "continue" in query or followed.get(place, 1):
            return None
        return self._kept.pop(place, None)

    def forget(self) -> None:
        self._kept.clear()


def _whole(request: Request) -> Request:
    query = tuple((name, value) for name, value in request.query if name not in PAGING)
    return attrs.evolve(request, query=query)
