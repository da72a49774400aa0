"""The file of tokens is read strictly, and again whenever it changes, without a restart."""

import re
from functools import partial
from typing import Final, NewType

import attrs

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.tokens import Principals
from gpuruntime.meter import Meter
from gpuruntime.models.kubernetes.names import is_label_value
from gpuruntime.roles.reloaded_file import ReloadedFile, read_file
from gpuruntime.settings.checks import refuse
from gpuruntime.strict.structure import FieldError, StrictReader
from gpuruntime.strict.yaml_documents import document_of

WHAT: Final = "token file"
MOST_TOKENS: Final = 10_000
Digest = NewType("Digest", str)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,128}")


@attrs.frozen(kw_only=True, slots=True)
class TokenEntry:
    """An entry holds the token's digest only: a reader of the file cannot call with it."""

    name: str
    sha256: Digest
    role: Role
    tenants: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        bad = [each for each in self.tenants if not each or not is_label_value(each)]
        has_none = self.role is Role.TENANT and not self.tenants
        is_bound = self.role is Role.OPERATOR and bool(self.tenants)
        refuse(
            (
                "name",
                not _NAME.fullmatch(self.name),
                "must be 1 to 128 letters, digits, '.', '_', '@' and '-'",
            ),
            ("tenants", bool(bad), f"{', '.join(map(repr, bad))}: no value of a label"),
            ("tenants", has_none, "is empty: a tenant has at least one"),
            ("tenants", is_bound, "binds an operator to tenants: choose tenant or viewer"),
        )

    @property
    def principal(self) -> Principal:
        return Principal(name=self.name, role=self.role, tenants=frozenset(self.tenants))


@attrs.frozen(kw_only=True, slots=True)
class TokenDocument:
    tokens: tuple[TokenEntry, ...]

    def __attrs_post_init__(self) -> None:
        if len(self.tokens) > MOST_TOKENS:
            raise FieldError("tokens", f"are more than {MOST_TOKENS}")
        for field in ("name", "sha256"):
            known: set[str] = set()
            for index, entry in enumerate(self.tokens):
                value = getattr(entry, field)
                if value in known:
                    raise FieldError(f"tokens[{index}].{field}", "occurs twice")
                known.add(value)


class TokenFile:
    """Raise ConfigurationError if the file is invalid at the start."""

    def __init__(self, path: str, meter: Meter) -> None:
        self._file = ReloadedFile(path, partial(_principals_in, path=path), what=WHAT)
        self._meter = meter

    def principals(self) -> Principals:
        return self._file.value

    async def run(self) -> None:
        """Reload the file when it changes. If it is invalid, the last good one stays."""
        await self._file.run(self._report)

    def _report(self) -> None:
        self._meter.gauge("auth_token_file_broken", float(self._file.is_broken))


def read_tokens(path: str) -> Principals:
    """Return the principals. Raise ConfigurationError with every fault, but without any digest."""
    return _principals_in(read_file(path, WHAT), path)


def _principals_in(content: bytes, path: str) -> Principals:
    document = document_of(content, f"{WHAT} {path}", _reader, TokenDocument)
    return {bytes.fromhex(entry.sha256): entry.principal for entry in document.tokens}


def _digest(value: object) -> str:
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value
    raise ValueError("must be the SHA-256 of a token, as 64 hexadecimal digits in lower case")


_reader = StrictReader({Digest: _digest})
