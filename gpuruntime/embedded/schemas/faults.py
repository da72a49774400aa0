"""Faults: an invalid field of an object, worded as Kubernetes words the causes of a 422."""

from typing import Any

import attrs

from gpuruntime.embedded.apiserver.documents import Document, encode_value


@attrs.frozen(slots=True)
class Fault:
    """A fault of a field; `reason` is a cause of Kubernetes, such as FieldValueRequired."""

    field: str
    reason: str
    message: str

    def document(self) -> Document:
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> Fault:
    return Fault(field, "FieldValueRequired", _worded("Required value", detail))


def invalid_value(field: str, value: object, detail: str) -> Fault:
    return Fault(field, "FieldValueInvalid", f"Invalid value: {quoted(value)}: {detail}")


def type_invalid(field: str, named: str, wanted: str) -> Fault:
    """Return a fault that names the value by its type only, as Go's schema validator does."""
    detail = f'{field} in body must be of type {wanted}: "{named}"'
    return Fault(field, "FieldValueTypeInvalid", f'Invalid value: "{named}": {detail}')


def not_supported(field: str, value: object, supported: list[Any]) -> Fault:
    listed = ", ".join(quoted(each) for each in supported)
    message = f"Unsupported value: {quoted(value)}: supported values: {listed}"
    return Fault(field, "FieldValueNotSupported", message)


def duplicate(field: str, value: object) -> Fault:
    return Fault(field, "FieldValueDuplicate", f"Duplicate value: {quoted(value)}")


def not_found_value(field: str, value: object) -> Fault:
    return Fault(field, "FieldValueNotFound", f"Not found: {quoted(value)}")


def forbidden_field(field: str, detail: str) -> Fault:
    return Fault(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> Fault:
    message = f"Too long: may not be more than {limit} bytes"
    return Fault(field, "FieldValueTooLong", message)


def too_many(field: str, count: int, limit: int) -> Fault:
    message = f"Too many: {count}: must have at most {limit} items"
    return Fault(field, "FieldValueTooMany", message)


def quoted(value: object) -> str:
    """Return the value as Go prints it: texts in quotes, numbers bare, anything else as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return encode_value(value).decode()


def _worded(title: str, detail: str) -> str:
    return f"{title}: {detail}" if detail else title
