"""Every stream, consumer and subject of ours, as pure functions of names that were checked.

A name is one token of a subject: no dot, star, blank or control character ever gets into one.
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
# 96 bits of a SHA-256: no two dead letters meet by chance.
_DIGEST: Final = 24


def is_function_name(text: str) -> bool:
    return _FUNCTION.fullmatch(text) is not None


def is_invocation_id(text: str) -> bool:
    return _INVOCATION.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    """Also the beginning of the streams' names: two installations on one broker differ in it."""
    return _PREFIX.fullmatch(text) is not None


def dead_letter_id(function: str, invocation: str, series: int) -> str:
    """The same for every try to write it, so that an end is written down once."""
    return f"dl-{_digest(f'{function}:{invocation}:{series}')}"


def unreadable_letter_id(function: str, sequence: int) -> str:
    """For a message that does not say which invocation it is."""
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

    def changed(self, function: str, invocation: str) -> str:
        """Where every new record of the invocation is told as well."""
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
        """Where the broker tells of each consumer of invocations that was deleted."""
        return f"$JS.EVENT.ADVISORY.CONSUMER.DELETED.{self.invocations}.*"

    def next_invocation(self, function: str) -> str:
        """Where a worker asks for messages of the function's consumer, which has its name."""
        return f"{API}.CONSUMER.MSG.NEXT.{self.invocations}.{_function(function)}"

    @property
    def next_record(self) -> str:
        """Where one asks for messages of the consumer of all records."""
        return f"{API}.CONSUMER.MSG.NEXT.{self.states}.{RESULTS}"

    def inbox(self, function: str) -> str:
        """The beginning of all inboxes of a function's workers."""
        return f"_INBOX.{self.prefix}.{_function(function)}"

    def record_of(self, subject: str) -> tuple[str, str]:
        """Function and invocation of a subject that `state` or `changed` made."""
        tokens = subject.split(".")
        if len(tokens) != 4 or tokens[0] != self.prefix or tokens[1] not in ("state", "changed"):
            raise BadNameError(f"subject {subject!r} is none of a record")
        return _function(tokens[2]), _invocation(tokens[3])

    def beat_of(self, subject: str) -> tuple[str, str]:
        """Function and worker of a subject that `beat` made."""
        tokens = subject.split(".")
        if len(tokens) != 4 or tokens[:2] != [self.prefix, "beat"]:
            raise BadNameError(f"subject {subject!r} is none of a worker's beats")
        return _function(tokens[2]), _worker(tokens[3])


@attrs.frozen(kw_only=True, slots=True)
class Rights:
    """What a NATS user may do: subjects as they stand in the broker's configuration."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def worker_rights(names: Names, function: str) -> Rights:
    """Enough for the workers of one function, and nothing of any other's messages."""
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
