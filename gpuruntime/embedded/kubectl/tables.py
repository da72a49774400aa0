"""Tables: rows of cells for kubectl, which lets the server choose what a kind shows."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.kubectl.columns import Printer
from gpuruntime.embedded.kubectl.object_forms import META, list_metadata
from gpuruntime.embedded.objects.listing import Page
from gpuruntime.embedded.objects.versions import Stored

INCLUDED: Final = ("None", "Metadata", "Object")


class TableForm:
    """The form of one answer: a watch sends the columns only with its first table."""

    def __init__(self, printer: Printer, included: str, now: Callable[[], datetime]) -> None:
        self._printer = printer
        self._included = included
        self._now = now
        self._has_sent_columns = False

    def one(self, stored: Stored) -> bytes:
        return self._table({"resourceVersion": str(stored.version)}, [stored])

    def many(self, page: Page) -> bytes:
        return self._table(list_metadata(page), page.items)

    def event_object(self, stored: Stored) -> bytes:
        table = self._table({"resourceVersion": str(stored.version)}, [stored])
        self._has_sent_columns = True
        return table

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        return self._table({"resourceVersion": str(version)}, [])

    def _table(self, metadata: Document, items: list[Stored]) -> bytes:
        now = self._now()
        columns: list[Any] | None = [each.document() for each in self._printer.columns]
        return encode(
            {
                "kind": "Table",
                "apiVersion": META,
                "metadata": metadata,
                "columnDefinitions": None if self._has_sent_columns else columns,
                "rows": [self._row(stored, now) for stored in items],
            }
        )

    def _row(self, stored: Stored, now: datetime) -> Document:
        document = stored.document()
        row: Document = {"cells": self._printer.cells(document, now), "object": None}
        if self._included == "Object":
            row["object"] = document
        elif self._included != "None":
            row["object"] = _partial(document)
        return row


def _partial(document: Document) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": META,
        "metadata": document["metadata"],
    }
