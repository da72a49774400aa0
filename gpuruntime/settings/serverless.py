"""Configuration of serverless functions: the broker, and the workers' own settings."""

import re
from typing import Final
from urllib.parse import urlsplit

import attrs

from gpuruntime.bus.credentials import without_login
from gpuruntime.bus.names import is_function_name, is_prefix
from gpuruntime.models.kinds.functions import Framework
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.models.kubernetes.quantities import parse_quantity
from gpuruntime.settings.checks import is_amount
from gpuruntime.strict.durations import Seconds
from gpuruntime.strict.structure import FieldError, raise_all

# The kernel's sun_path without the final zero byte.
LONGEST_SOCKET_PATH: Final = 107
MOST_CONCURRENCY: Final = 1000
MOST_ATTEMPTS: Final = 100
STREAM_REPLICAS: Final = (1, 3, 5)
# The kubelet may take two minutes to deliver new credentials to a worker.
SHORTEST_LIFETIME_SECONDS: Final = 600.0
_ACCOUNT: Final = re.compile("A[A-Z2-7]{55}")


def _raise_all(problems: dict[str, str]) -> None:
    raise_all([FieldError(field, text) for field, text in problems.items()])


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@attrs.frozen(kw_only=True, slots=True)
class StreamSettings:
    """Settings for creating streams; existing streams keep these from their operator."""

    replicas: int = 1
    mostQueued: int = 1_000_000
    mostQueuedPerFunction: int = 100_000
    mostQueuedSize: str = "1Gi"

    def __attrs_post_init__(self) -> None:
        problems = {
            name: "must be at least 1"
            for name in ("mostQueued", "mostQueuedPerFunction")
            if getattr(self, name) < 1
        }
        if self.replicas not in STREAM_REPLICAS:
            problems["replicas"] = "must be 1, 3 or 5: the broker decides by majority"
        if not is_amount(self.mostQueuedSize):
            problems["mostQueuedSize"] = "must be a quantity above 0 and below 1Ei, such as '1Gi'"
        _raise_all(problems)

    @property
    def most_queued_bytes(self) -> int:
        return parse_quantity(self.mostQueuedSize).rounded_up


@attrs.frozen(kw_only=True, slots=True)
class NatsSettings:
    """An empty url turns off everything serverless. Secrets are in files, read at each connect."""

    url: str = attrs.field(default="", repr=without_login)
    subjectPrefix: str = "runtime"
    user: str = ""
    passwordFile: str = ""
    tokenFile: str = ""
    nkeyFile: str = ""
    credentialsFile: str = ""
    caFile: str = ""
    certificateFile: str = ""
    keyFile: str = ""
    streams: StreamSettings = StreamSettings()

    def __attrs_post_init__(self) -> None:
        problems = {}
        ways = ("user", "tokenFile", "nkeyFile", "credentialsFile")
        chosen = [name for name in ways if getattr(self, name)]
        if self.url and not all(_is_address(url) for url in self.url.split(",")):
            problems["url"] = "must be nats://host:port or tls://host:port, with commas between"
        if not is_prefix(self.subjectPrefix):
            problems["subjectPrefix"] = "must be at most 32 lower case letters, digits and '_'"
        if len(chosen) > 1:
            problems[chosen[1]] = f"is a second way to log in beside {chosen[0]}: choose one"
        if self.passwordFile and not self.user:
            problems["passwordFile"] = "needs the user that it is for"
        if bool(self.certificateFile) != bool(self.keyFile):
            problems["keyFile"] = "goes with certificateFile: give both or none"
        _raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class FrameworkSettings:
    """The socket and the paths of the container beside the worker."""

    socketPath: str = Framework().socketPath
    invokePath: str = Framework().invokePath
    healthPath: str = Framework().healthPath

    def __attrs_post_init__(self) -> None:
        problems = {
            name: "must begin with '/'"
            for name in ("socketPath", "invokePath", "healthPath")
            if not getattr(self, name).startswith("/")
        }
        if len(self.socketPath.encode()) > LONGEST_SOCKET_PATH:
            problems["socketPath"] = f"is longer than {LONGEST_SOCKET_PATH} bytes"
        _raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class WorkerSettings:
    """`name` defaults to the host's name, in a Pod the Pod's; `uid` belongs to the worker's unit.

    `declarer` is the uid of the unit that declares the function. Without it the worker takes
    invocations of any declarer.
    """

    function: str = ""
    name: str = ""
    uid: str = ""
    declarer: str = ""
    namespace: str = ""
    concurrency: int = 1
    attemptTimeout: Seconds = Seconds(300.0)
    maxAttempts: int = 5
    ackWait: Seconds = Seconds(30.0)
    resultRetention: Seconds = Seconds(86_400.0)
    framework: FrameworkSettings = FrameworkSettings()

    def __attrs_post_init__(self) -> None:
        problems = {}
        if self.function and not is_function_name(self.function):
            problems["function"] = "must be 1 to 63 of lower case letters, digits, '_' and '-'"
        if self.name and not is_dns_label(self.name):
            problems["name"] = "must be lower case letters, digits and '-'"
        if not 1 <= self.concurrency <= MOST_CONCURRENCY:
            problems["concurrency"] = f"must be 1 to {MOST_CONCURRENCY}"
        if not 1 <= self.maxAttempts <= MOST_ATTEMPTS:
            problems["maxAttempts"] = f"must be 1 to {MOST_ATTEMPTS}"
        _raise_all(problems)


@attrs.frozen(kw_only=True, slots=True)
class ServerlessSettings:
    """The worker container in functions' Pods, and its login at the broker.

    Without a signing key all workers log in by the section `nats`.
    """

    image: str = ""
    cpu: str = "100m"
    cpuLimit: str = "1"
    memory: str = "256Mi"
    drain: Seconds = Seconds(30.0)
    signingKeyFile: str = ""
    account: str = ""
    credentialsLifetime: Seconds = Seconds(604_800.0)

    def __attrs_post_init__(self) -> None:
        amounts = {name: getattr(self, name) for name in ("cpu", "cpuLimit", "memory")}
        problems = {
            name: f"must be a quantity above 0, such as '500m' or '1Gi', not {text!r}"
            for name, text in amounts.items()
            if not is_amount(text)
        }
        if not problems and parse_quantity(self.cpuLimit) < parse_quantity(self.cpu):
            problems["cpuLimit"] = f"must not be below cpu, {self.cpu}"
        if self.account and not _ACCOUNT.fullmatch(self.account):
            problems["account"] = "must be the public key of an account: A and 55 more characters"
        if self.account and not self.signingKeyFile:
            problems["account"] = "goes with signingKeyFile: give both or none"
        if self.credentialsLifetime < SHORTEST_LIFETIME_SECONDS:
            problems["credentialsLifetime"] = (
                "must be at least 10m: new credentials take minutes to arrive"
            )
        _raise_all(problems)
