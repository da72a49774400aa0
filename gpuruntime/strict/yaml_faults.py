"""Faults of a YAML file, reported without its content, which may be a secret."""

import re
from typing import Final

import yaml

# A password may look like an alias or a tag to YAML, and its message would repeat it.
_REPEATED: Final = re.compile(r"(alias|anchor|tag|handle) .*", re.DOTALL)


def fault_of(error: yaml.YAMLError | ValueError | RecursionError) -> str:
    """Return the place and the fault in one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark and error.problem:
        mark = error.problem_mark
        problem = _REPEATED.sub(r"\1", error.problem)
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position + 1} is not allowed in YAML"
    if isinstance(error, ValueError):
        return "an invalid date or number: put it in quotes"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return type(error).__name__
