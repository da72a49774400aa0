"""Configuration of the storage of invocation results."""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qs, urlsplit

import attrs

from gpuruntime.settings.checks import refuse
from gpuruntime.strict.durations import Seconds

MOST_CONNECTIONS: Final = 100
# The broker deletes long bodies an hour later.
LONGEST_IN_STREAM_SECONDS: Final = 86_400.0
_SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_SECRETS: Final = ("password", "passfile", "sslpassword")


class StoreKind(StrEnum):
    """The store of results; `kv` keeps them in the stream of records only."""

    KV = "kv"
    POSTGRES = "postgres"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = "@" in parts.netloc or "@" not in url
        return parts.scheme in ("postgresql", "postgres") and is_whole and parts.port != 0
    except ValueError:
        return False


def _holds_secret(url: str) -> bool:
    parts = urlsplit(url)
    return ":" in parts.netloc.rpartition("@")[0] or any(
        name in parse_qs(parts.query) for name in _SECRETS
    )


@attrs.frozen(kw_only=True, slots=True)
class PostgresSettings:
    """Secrets are in files, read at each connect: the whole address, or its password only."""

    url: str = ""
    urlFile: str = ""
    passwordFile: str = ""
    schema: str = "gpuruntime"
    poolSize: int = 4

    def __attrs_post_init__(self) -> None:
        is_bad = bool(self.url) and not _is_address(self.url)
        refuse(
            (
                "url",
                is_bad,
                "must be postgresql://user@host:5432/database, without '/', '?' and '#' in names",
            ),
            (
                "url",
                not is_bad and _holds_secret(self.url),
                "holds a secret: put the address into urlFile, or the password into passwordFile",
            ),
            ("urlFile", bool(self.url and self.urlFile), "is a second address beside url"),
            (
                "passwordFile",
                bool(self.passwordFile and not self.url),
                "goes with url: the address in urlFile holds its own password",
            ),
            (
                "schema",
                not _SCHEMA.fullmatch(self.schema),
                "must be at most 63 lower case letters, digits and '_', and not begin with pg_",
            ),
            (
                "poolSize",
                not 1 <= self.poolSize <= MOST_CONNECTIONS,
                f"must be 1 to {MOST_CONNECTIONS}",
            ),
        )


@attrs.frozen(kw_only=True, slots=True)
class ResultsSettings:
    """`retention` applies to the database, `streamRetention` to the broker before it."""

    store: StoreKind = StoreKind.KV
    streamRetention: Seconds = Seconds(86_400.0)
    retention: Seconds = Seconds(7 * 86_400.0)
    postgres: PostgresSettings = PostgresSettings()

    def __attrs_post_init__(self) -> None:
        is_postgres = self.store is StoreKind.POSTGRES
        refuse(
            (
                "streamRetention",
                self.streamRetention > LONGEST_IN_STREAM_SECONDS,
                "is longer than 24h: the broker would delete long bodies before their results",
            ),
            (
                "retention",
                is_postgres and self.retention < self.streamRetention,
                "is shorter than streamRetention: deleted results would be stored again",
            ),
            (
                "postgres",
                is_postgres and not (self.postgres.url or self.postgres.urlFile),
                "needs an address: give urlFile, url or GPURUNTIME_POSTGRES_URL",
            ),
        )
