"""Configuration of access: who may call the API, how much, and over which connections."""

import math
from enum import StrEnum

import attrs

from gpuruntime.settings.checks import refuse
from gpuruntime.strict.durations import Seconds


class AuthMode(StrEnum):
    NONE = "none"
    TOKEN = "token"  # noqa: S105 - the name of a mode
    KUBERNETES = "kubernetes"


@attrs.frozen(kw_only=True, slots=True)
class TlsSettings:
    """The certificate of `listen`; without files it serves plain HTTP."""

    certificateFile: str = ""
    keyFile: str = ""

    def __attrs_post_init__(self) -> None:
        is_half = bool(self.certificateFile) != bool(self.keyFile)
        missing = "keyFile" if self.certificateFile else "certificateFile"
        refuse((missing, is_half, "is empty: a certificate and its key go together"))


@attrs.frozen(kw_only=True, slots=True)
class ConnectionSettings:
    """Limits on the connections of `listen`: their number, and how long they may be slow.

    `bodyIdleTimeout` bounds each piece of a body and `bodyTimeout` all of it; files have their own
    times. `answerTimeout` bounds how long a caller takes its answer. `mostRequests` bounds the
    requests in progress of all callers together.
    """

    headTimeout: Seconds = Seconds(15.0)
    bodyIdleTimeout: Seconds = Seconds(10.0)
    bodyTimeout: Seconds = Seconds(30.0)
    answerTimeout: Seconds = Seconds(60.0)
    idleTimeout: Seconds = Seconds(75.0)
    most: int = 8192
    mostRequests: int = 4096

    def __attrs_post_init__(self) -> None:
        refuse(
            ("most", self.most < 1, "must be at least 1"),
            ("mostRequests", self.mostRequests < 1, "must be at least 1"),
        )


@attrs.frozen(kw_only=True, slots=True)
class CallerLimitSettings:
    """Limits on each known caller at one replica."""

    requestsPerSecond: float = 100.0
    burst: int = 200
    atOnce: int = 256

    def __attrs_post_init__(self) -> None:
        is_rate = 0 < self.requestsPerSecond < math.inf
        refuse(
            ("requestsPerSecond", not is_rate, "must be above 0"),
            ("burst", self.burst < 1, "must be at least 1"),
            ("atOnce", self.atOnce < 1, "must be at least 1"),
        )


@attrs.frozen(kw_only=True, slots=True)
class AuthSettings:
    mode: AuthMode = AuthMode.NONE
    allowUnauthenticated: bool = False
    tokenFile: str = ""
    audience: str = "gpuruntime"
    limits: CallerLimitSettings = CallerLimitSettings()

    def __attrs_post_init__(self) -> None:
        is_token = self.mode is AuthMode.TOKEN
        refuse(
            ("tokenFile", is_token and not self.tokenFile, "is empty: mode token needs one"),
            ("audience", not self.audience, "is empty: name the audience of the tokens"),
            (
                "tokenFile",
                bool(self.tokenFile) and not is_token,
                f"is given, but mode is {self.mode}: set mode: token",
            ),
            (
                "allowUnauthenticated",
                self.allowUnauthenticated and self.mode is not AuthMode.NONE,
                f"is true, but mode is {self.mode}: remove one of them",
            ),
        )
