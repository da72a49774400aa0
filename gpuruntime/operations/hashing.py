"""The hash of a request decides whether another request is its replay.

Members that equal their defaults are left out of the hash. So a field that a later version adds
does not change the hash of requests that never named it. The golden hashes in the tests protect
this. If they change, honest replays of running callers become conflicts.
"""

import hashlib
from typing import Any

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.members import compact
from gpuruntime.models.kubernetes.quantities import parse_quantity

_DERIVED_LENGTH = 40
# Members outside the hash: the operationID itself, namespaces, which the server's settings decide,
# and how long a caller waits, which changes nothing of what it asks for.
_OUTSIDE = ("operationID", "namespace", "stockNamespace", "waitSeconds")
_QUANTITIES = ("cpu", "memory", "size")


def request_hash(request: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a validated request, before any expansion."""
    said = {name: value for name, value in compact(request).items() if name not in _OUTSIDE}
    for name in _QUANTITIES:
        if isinstance(text := said.get(name), str):
            said[name] = str(parse_quantity(text))
    return hashlib.sha256(codec.encode_canonical(said)).hexdigest()


def derived_name(operation_id: str) -> str:
    """Return the name of an object whose caller chose none; callers cannot choose such a name."""
    return f"op-{operation_digest(operation_id)}"


def operation_digest(operation_id: str) -> str:
    return hashlib.sha256(operation_id.encode()).hexdigest()[:_DERIVED_LENGTH]
