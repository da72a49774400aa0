"""Tickets as callers get them; nothing shows a ticket again."""

from datetime import datetime

import attrs

from gpuruntime.models.requests.tickets import Use


@attrs.frozen(kw_only=True, slots=False)
class TicketUnit:
    """The incarnation of a unit that a ticket is for, and its `access.generation`."""

    name: str
    uid: str
    generation: int


@attrs.frozen(kw_only=True, slots=False)
class SshAddress:
    """The gateway's SSH listener; the ticket is the password of the user.

    Without a listener the host is empty, and SSH is within the WebSocket of `sshURL` alone.
    `hostKeys` are the gateway's own, as lines such as `ssh-ed25519 AAAA…`.
    """

    host: str
    port: int
    user: str
    command: str
    hostKeys: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=False)
class TicketView:
    """A ticket with the gateway's address for each of its uses; others are empty.

    `url` and `terminalURL` are for a browser: they enter once, within a minute. `commands` are
    lines for a shell; the one for `curl` takes the ticket from the variable TICKET.
    """

    ticket: str = attrs.field(repr=False)
    expiresAt: datetime
    unit: TicketUnit
    uses: tuple[Use, ...]
    url: str = attrs.field(repr=False)
    terminalURL: str = attrs.field(repr=False)
    execURL: str
    forwardURL: str
    ssh: SshAddress | None
    sshURL: str = ""
    commands: dict[str, str] = attrs.field(factory=dict)
