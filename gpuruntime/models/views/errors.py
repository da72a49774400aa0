"""Errors as callers see them: one shape for every refusal."""

import attrs


@attrs.frozen(kw_only=True, slots=False)
class ErrorDetail:
    """A field at fault: its path in the body, or the name of a parameter or header."""

    field: str
    message: str


@attrs.frozen(kw_only=True, slots=False)
class ErrorView:
    """An error. `code` is for programs to branch on; the message is for people."""

    code: str
    message: str
    details: tuple[ErrorDetail, ...] = ()


@attrs.frozen(kw_only=True, slots=False)
class ErrorBody:
    error: ErrorView
