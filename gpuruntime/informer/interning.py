"""Compact objects: independent of the page that they came in, with one copy of each string.

Decoding creates a new string for every value, and Raw members refer to the bytes of the whole
page. Objects kept like that cost more than their bytes on the wire; compacted, two thirds of them.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from gpuruntime.models.encoding.annotations import (
    Choice,
    Entries,
    Items,
    Model,
    Noted,
    Plain,
    fields_of,
    shape_of,
)
from gpuruntime.models.kubernetes.metadata import ObjectMeta

T = TypeVar("T")
Part = Callable[[Any], Any]  # fields may have values of any type

# Longer strings are messages and documents, which hardly repeat.
LONGEST_SHARED = 64
MOST_SHARED = 16_384
# These differ in each object and would only fill the table.
UNIQUE: dict[type, frozenset[str]] = {ObjectMeta: frozenset({"name", "uid", "resourceVersion"})}


class Interner(Generic[T]):
    """Interner compacts objects of one type in place.

    Values stay equal, so it is safe on objects that others already hold.
    """

    def __init__(self, model: type[T]) -> None:
        self._strings: dict[str, str] = {}
        self._compact = self._of(model) or _unchanged

    def __call__(self, value: T) -> T:
        if len(self._strings) > MOST_SHARED:
            self._strings.clear()
        self._compact(value)
        return value

    def _of(self, annotation: Any) -> Part | None:
        """Return the function that compacts a value of that type, or None for nothing to do."""
        match shape_of(annotation):
            case Noted(inner, _):
                return self._of(inner)
            case Choice(choices, _):
                return self._of(choices[0]) if len(choices) == 1 else None
            case Items(container, item):
                return self._of_items(item) if container is tuple else None
            case Entries(value):
                return self._share_values if value is str else None
            case Model(model):
                return self._of_fields(model)
            case Plain(kind):
                if kind is str:
                    return self._share
                return msgspec.Raw.copy if kind is msgspec.Raw else None

    def _of_fields(self, model: type) -> Part | None:
        unique = UNIQUE.get(model, frozenset())
        fields = [field for field in fields_of(model) if field.name not in unique]
        found = [(field.name, self._of(field.annotation)) for field in fields]
        texts = [name for name, part in found if part == self._share]
        parts = [(name, part) for name, part in found if part and name not in texts]
        if not texts and not parts:
            return None
        # objects are frozen for all other code
        share, replace = self._strings.setdefault, object.__setattr__

        def compact(value: Any) -> Any:
            for name in texts:
                text = getattr(value, name)
                if text and len(text) <= LONGEST_SHARED:
                    known = share(text, text)
                    if known is not text:
                        replace(value, name, known)
            for name, part in parts:
                before = getattr(value, name)
                if before:
                    after = part(before)
                    if after is not before:
                        replace(value, name, after)
            return value

        return compact

    def _of_items(self, annotation: Any) -> Part | None:
        part = self._of(annotation)
        if part is None:
            return None
        if part in (self._share, msgspec.Raw.copy):
            return lambda items: tuple(map(part, items))

        def compact(items: tuple[Any, ...]) -> tuple[Any, ...]:
            for item in items:
                part(item)
            return items

        return compact

    def _share(self, text: str) -> str:
        return self._strings.setdefault(text, text) if len(text) <= LONGEST_SHARED else text

    def _share_values(self, texts: dict[str, str]) -> dict[str, str]:
        share = self._strings.setdefault
        for name, text in texts.items():
            if len(text) <= LONGEST_SHARED:
                texts[name] = share(text, text)
        return texts


def _unchanged(value: T) -> T:
    return value
