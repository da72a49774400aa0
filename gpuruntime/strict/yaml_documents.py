"""YAML for configurations: plain words as in YAML 1.2, and each key at most once."""

import re
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from gpuruntime.errors import ConfigurationError
from gpuruntime.strict.structure import StrictError, StrictReader
from gpuruntime.strict.yaml_faults import fault_of

ValueT = TypeVar("ValueT")

_BOOLEAN: Final = "tag:yaml.org,2002:bool"


def read_mapping(path: str) -> dict[str, object]:
    """Read a configuration file; an empty file is an empty mapping."""
    where = f"configuration {path}"
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{where}: {error.strerror}") from error
    return mapping_of(data, where)


def mapping_of(data: bytes, where: str) -> dict[str, object]:
    """Return the mapping, or raise ConfigurationError, which names `where`."""
    try:
        document = yaml.load(data, _StrictLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where}: not YAML: {fault_of(error)}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{where}: must be a mapping of keys")
    return document


def document_of(data: bytes, where: str, reader: StrictReader, model: type[ValueT]) -> ValueT:
    """Return the document as a `model`, or raise ConfigurationError with every fault in it."""
    try:
        return reader.read(mapping_of(data, where), model)
    except StrictError as error:
        raise ConfigurationError(f"{where}: {error}") from error


class _StrictLoader(yaml.SafeLoader):
    """A loader as in YAML 1.2: `off` is a word, and a mapping has each key once."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML reads it from the class
        first: [(tag, regexp) for tag, regexp in resolvers if tag != _BOOLEAN]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(_BOOLEAN, re.compile(r"true|false"), list("tf"))
