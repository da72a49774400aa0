"""A message as it came from the broker."""

import attrs


@attrs.frozen(slots=True)
class Message:
    """`status` is 0 but for what the broker itself says instead of a message."""

    subject: str
    data: bytes
    reply: str = ""
    headers: dict[str, str] = attrs.field(factory=dict)
    status: int = 0
    description: str = ""
