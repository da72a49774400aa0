"""Fills the options of a room from the configuration, by the names of their fields."""

from typing import Any, TypeVar

import attrs

OptionsT = TypeVar("OptionsT")


def options_of(kind: type[OptionsT], *sections: object, **given: Any) -> OptionsT:
    """Return a room's options: each field as it is given, or as the key of its name is set.

    The field `drain_seconds` has the key `drain` or `drainTimeout`. A field without a key keeps
    its default, a constant of the room. Raise TypeError if a field with a key has one as well.
    """
    fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(kind)  # type: ignore[arg-type]  # all are attrs
    for field in fields:
        for section in sections:
            key = _key_of(field.name, section)
            if key and field.name not in given:
                if field.default is not attrs.NOTHING:
                    raise TypeError(f"{kind.__name__}.{field.name}: its default is the key's")
                given[field.name] = getattr(section, key)
    return kind(**given)


def _key_of(field: str, section: object) -> str:
    """Return the key or the property of the section that fills the field, or "" without one."""
    if hasattr(section, field):
        return field
    name = field.removesuffix("_seconds").replace("_", "")
    names = (name, f"{name}timeout") if field.endswith("_seconds") else (name,)
    keys = attrs.fields_dict(type(section))  # type: ignore[arg-type]  # all are attrs
    return next((key for key in keys if key.lower() in names), "")
