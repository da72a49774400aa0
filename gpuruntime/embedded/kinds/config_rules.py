"""ConfigMaps and Secrets: how their bytes are stored, their limits, and their immutability."""

import base64
import re
from collections.abc import Iterator
from typing import Final

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.schemas.faults import (
    Fault,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)

LARGEST: Final = 1024 * 1024
KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
KEY_WORDS: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
IMMUTABLE: Final = "field is immutable when `immutable` is set"


def judge_config_map(document: Document, old: Document | None) -> Iterator[Fault]:
    for name in ("data", "binaryData"):
        yield from _key_faults(name, document.get(name, {}))
    total = sum(len(value.encode()) for value in document.get("data", {}).values())
    total += sum(len(value) * 3 // 4 for value in document.get("binaryData", {}).values())
    if total > LARGEST:
        yield too_long("[]", LARGEST)
    yield from _immutable_faults(document, old, "data", "binaryData")


def fill_secret(document: Document, old: Document | None) -> None:
    """Store the text values of `stringData` as base64 in `data`."""
    document.setdefault("type", "Opaque")
    texts = document.pop("stringData", {})
    if texts:
        data = document.setdefault("data", {})
        for name, text in texts.items():
            data[name] = base64.b64encode(text.encode()).decode()


def judge_secret(document: Document, old: Document | None) -> Iterator[Fault]:
    data = document.get("data", {})
    yield from _key_faults("data", data)
    if sum(len(value) * 3 // 4 for value in data.values()) > LARGEST:
        yield too_long("data", LARGEST)
    for name in _needed(document["type"]):
        if name not in data:
            yield required(f"data[{name}]")
    if old is not None and old["type"] != document["type"]:
        yield invalid_value("type", document["type"], "field is immutable")
    yield from _immutable_faults(document, old, "data")


def _needed(kind: str) -> tuple[str, ...]:
    match kind:
        case "kubernetes.io/tls":
            return ("tls.crt", "tls.key")
        case "kubernetes.io/dockerconfigjson":
            return (".dockerconfigjson",)
        case _:
            return ()


def _key_faults(name: str, data: Document) -> Iterator[Fault]:
    for key in data:
        if not KEY.fullmatch(key):
            yield invalid_value(f"{name}[{key}]", key, KEY_WORDS)


def _immutable_faults(document: Document, old: Document | None, *names: str) -> Iterator[Fault]:
    if old is None or not old.get("immutable"):
        return
    for name in ("immutable", *names):
        if document.get(name) != old.get(name):
            yield forbidden_field(name, IMMUTABLE)
