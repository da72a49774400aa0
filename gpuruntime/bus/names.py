"""Pure functions that build every stream, consumer and subject of ours from validated names.

A name is one token of a subject: it never contains a dot, star, blank or control character.
"""

import hashlib
import re
from typing import Final

import attrs

from gpuruntime.bus.errors import BadNameError
from gpuruntime.models.kubernetes.names import is_dns_label

API: Final = "$JS.API"
# The consumer of all records.
RESULTS: Final = "results"
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,31}")
_FUNCTION = re.compile(r"[a-z0-9_-]{1,63}")
_INVOCATION = re.compile(r"[A-Za-z0-9_-]{1,128}")
# 24 hex digits are 96 bits of a SHA-256, so two dead letters do not collide by chance.
_DIGEST: Final = 24


def is_function_name(text: str) -> bool:
    return _FUNCTION.fullmatch(text) is not None


def is_invocation_id(text: str) -> bool:
    return _INVOCATION.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    """Return whether the text is valid as the prefix of subjects and stream names.

    Two installations on one broker differ in it.
    """
    return _PREFIX.fullmatch(text) is not None


def dead_letter_id(function: str, invocation: str, series: int) -> str:
    """Return the same id for every attempt to write it, so that each end is written once."""
    return f"dl-{_digest(f'{function}:{invocation}:{series}')}"


def unreadable_letter_id(function: str, sequence: int) -> str:
    """Return the id for a message that does not name its invocation."""
    return f"dl-{_digest(f'{function}#{sequence}')}"


@attrs.frozen(slots=True)
class Names:
    prefix: str = "runtime"

    def __attrs_post_init__(self) -> None:
        if not is_prefix(self.prefix):
            raise BadNameError(
                f"subject prefix {self.prefix!r} must be lower case letters, digits and '_'"
            )

    @property
    def invocations(self) -> str:
        return f"{self.prefix.upper()}_INVOCATIONS"

    @property
    def states(self) -> str:
        return f"{self.prefix.upper()}_STATE"

    @property
    def dead_letters(self) -> str:
        return f"{self.prefix.upper()}_DLQ"

    @property
    def bodies(self) -> str:
        return f"{self.prefix.upper()}_BODIES"

    def invoke(self, function: str) -> str:
        return f"{self.prefix}.invoke.{_function(function)}"

    def state(self, function: str, invocation: str) -> str:
        return f"{self.prefix}.state.{_function(function)}.{_invocation(invocation)}"

    def states_of(self, function: str) -> str:
        """Return the subjects of all records of a function."""
        return f"{self.prefix}.state.{_function(function)}.*"

    def changed(self, function: str, invocation: str) -> str:
        """Return the subject to which the broker republishes each new record."""
        return f"{self.prefix}.changed.{_function(function)}.{_invocation(invocation)}"

    def dead_letter(self, function: str, letter: str) -> str:
        return f"{self.prefix}.dlq.{_function(function)}.{_invocation(letter)}"

    def body(self, function: str, invocation: str, *, series: int, attempt: int, part: int) -> str:
        whose = f"{_function(function)}.{_invocation(invocation)}"
        return f"{self.prefix}.body.{whose}.{series}-{attempt}.{part}"

    def beat(self, function: str, worker: str) -> str:
        return f"{self.prefix}.beat.{_function(function)}.{_worker(worker)}"

    @property
    def all_beats(self) -> str:
        return f"{self.prefix}.beat.*.*"

    def control(self, function: str, worker: str) -> str:
        return f"{self.prefix}.control.{_function(function)}.{_worker(worker)}"

    def wake(self, function: str) -> str:
        return f"{self.prefix}.wake.{_function(function)}"

    @property
    def all_wakes(self) -> str:
        return f"{self.prefix}.wake.*"

    @property
    def lost_consumers(self) -> str:
        """Return the subject of the broker's advisories about deleted invocation consumers."""
        return f"$JS.EVENT.ADVISORY.CONSUMER.DELETED.{self.invocations}.*"

    def next_invocation(self, function: str) -> str:
        """Return the pull subject of the function's consumer, which has the function's name."""
        return f"{API}.CONSUMER.MSG.NEXT.{self.invocations}.{_function(function)}"

    @property
    def next_record(self) -> str:
        """Return the pull subject of the consumer of all records."""
        return f"{API}.CONSUMER.MSG.NEXT.{self.states}.{RESULTS}"

    def inbox(self, function: str) -> str:
        """Return the common prefix of all inboxes of a function's workers."""
        return f"_INBOX.{self.prefix}.{_function(function)}"

    def record_of(self, subject: str) -> tuple[str, str]:
        """Return function and invocation of a subject that `state` or `changed` made."""
        tokens = subject.split(".")
        if len(tokens) != 4 or tokens[0] != self.prefix or tokens[1] not in ("state", "changed"):
            raise BadNameError(f"subject {subject!r} is not a record's")
        return _function(tokens[2]), _invocation(tokens[3])

    def beat_of(self, subject: str) -> tuple[str, str]:
        """Return function and worker of a subject that `beat` made."""
        tokens = subject.split(".")
        if len(tokens) != 4 or tokens[:2] != [self.prefix, "beat"]:
            raise BadNameError(f"subject {subject!r} is not a heartbeat's")
        return _function(tokens[2]), _worker(tokens[3])


@attrs.frozen(kw_only=True, slots=True)
class Rights:
    """The permissions of a NATS user, as subjects of the broker's configuration."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def worker_rights(names: Names, function: str) -> Rights:
    """Return what the workers of one function need; no other function's messages are included."""
    own = _function(function)
    prefix = names.prefix
    return Rights(
        publish=(
            names.next_invocation(own),
            f"$JS.ACK.{names.invocations}.{own}.>",
            f"{prefix}.state.{own}.*",
            f"{API}.DIRECT.GET.{names.states}.{prefix}.state.{own}.*",
            f"{prefix}.beat.{own}.*",
            f"{prefix}.dlq.{own}.*",
            f"{prefix}.body.{own}.>",
        ),
        subscribe=(f"{names.inbox(own)}.>", f"{prefix}.control.{own}.*"),
    )


def _function(text: str) -> str:
    if not is_function_name(text):
        raise BadNameError(
            f"serverlessRequestID {text[:80]!r} must be 1 to 63 of lower case letters, digits, "
            "'_' and '-'"
        )
    return text


def _invocation(text: str) -> str:
    if not is_invocation_id(text):
        raise BadNameError(
            f"invocationID {text[:80]!r} must be 1 to 128 of letters, digits, '_' and '-'"
        )
    return text


def _worker(text: str) -> str:
    if not is_dns_label(text):
        raise BadNameError(f"worker {text[:80]!r} must be a DNS label of at most 63 characters")
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
