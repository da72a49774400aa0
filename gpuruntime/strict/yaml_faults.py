"""What is wrong with a YAML file, said without what stands in it: that may be a secret."""

import re
from typing import Final

import yaml

# A password may begin with what YAML takes for an alias or a tag, and would be repeated as one.
_REPEATED: Final = re.compile(r"(alias|anchor|tag|handle) .*", re.DOTALL)


def fault_of(error: yaml.YAMLError | ValueError | RecursionError) -> str:
    """One line: where it is, and what."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark and error.problem:
        mark = error.problem_mark
        problem = _REPEATED.sub(r"\1", error.problem)
        return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position + 1} is none that YAML allows"
    if isinstance(error, ValueError):
        return "a date, or a number, that is none: put it in quotes"
    if isinstance(error, RecursionError):
        return "it is too deep"
    return type(error).__name__
