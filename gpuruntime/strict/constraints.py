"""Bounds of single values: those of our kinds' schemas, and checks that apply only to callers."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from gpuruntime.models.definitions.schemas import Check, Schema
from gpuruntime.models.definitions.texts import (
    Argument,
    ClassName,
    EnvName,
    Image,
    LabelValue,
    Name,
    PortName,
    RequestID,
    SecretDataKey,
    SpecName,
    SshKey,
)
from gpuruntime.models.encoding.annotations import notes_of


def _pattern_of(text: Any) -> str:
    return next(note.pattern for note in notes_of(text) if isinstance(note, Schema))


_IN_WORDS: Final = {
    _pattern_of(Name): "must be a DNS label: lower case letters, digits and '-', "
    "a letter or digit at both ends",
    _pattern_of(SpecName): "must be lower case letters, digits, '-' and '.', "
    "a letter or digit at both ends",
    _pattern_of(LabelValue): "must be letters, digits, '-', '_' and '.', "
    "a letter or digit at both ends",
    _pattern_of(PortName): "must be lower case letters, digits and single '-', "
    "with a letter, and none but letters and digits at the ends",
    _pattern_of(EnvName): "must be letters, digits, '_', '-' and '.', not a digit in front",
    _pattern_of(SecretDataKey): "must be letters, digits, '-', '_' and '.', not '..' in front",
    _pattern_of(ClassName): "must be the name of a class: DNS labels with a '.' between them",
    _pattern_of(Image): "must be printable ASCII without spaces",
    _pattern_of(Argument): "must have no NUL character: no process could be given it",
    _pattern_of(SshKey): "must be one OpenSSH public key without options: its type (ssh-ed25519, "
    "ecdsa-sha2-nistp…, sk-… or ssh-rsa), its base64, and perhaps a comment",
    _pattern_of(RequestID): "must be lower case letters, digits, '_' and '-'",
}


def first_fault(value: object, notes: Iterable[Any]) -> tuple[str, str] | None:
    """Return the member and the message of the first fault, since others often follow from it.

    Values of another type than the bound's are skipped.
    """
    for note in notes:
        match note:
            case Schema():
                message = next(_words(value, note), "")
            case Check():
                message = note.fault_of(value)
            case _:
                continue
        if message:
            return getattr(note, "field", ""), message
    return None


def _words(value: object, schema: Schema) -> Iterator[str]:
    match value:
        case int() if not isinstance(value, bool):
            yield from _bounds(value, schema)
        case str():
            yield from _text(value, schema)
        case _:
            return


def _bounds(value: int, schema: Schema) -> Iterator[str]:
    if schema.minimum is not None and value < schema.minimum:
        yield f"must be at least {schema.minimum}"
    if schema.maximum is not None and value > schema.maximum:
        yield f"must be at most {schema.maximum}"


def _text(value: str, schema: Schema) -> Iterator[str]:
    if schema.minLength is not None and len(value) < schema.minLength:
        yield "must not be empty"
    if schema.maxLength is not None and len(value) > schema.maxLength:
        yield f"must be at most {schema.maxLength} characters, not {len(value)}"
    if schema.pattern and not re.fullmatch(schema.pattern, value):
        yield _IN_WORDS.get(schema.pattern, f"must match {schema.pattern}")
    if schema.enum and value not in schema.enum:
        yield f"must be one of {', '.join(schema.enum)}"
