"""The serverless part of a unit: the function that it declares or works for, and its status."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

import attrs

from gpuruntime.models.definitions.rules import DEFAULT_SOCKET, FREE_SOCKET_PATH, WORKER_RANGE
from gpuruntime.models.definitions.schemas import Rule, Schema
from gpuruntime.models.definitions.texts import UID, Name, RequestID, SocketPath, UrlPath
from gpuruntime.models.kubernetes.names import LONGEST_LABEL, cut_with_hash

MOST_WORKERS: Final = 1000
# Enough for the words of a failing container.
LONGEST_MESSAGE: Final = 1024
_DAY_SECONDS = 86_400


class Update(StrEnum):
    """The order of an update: the successor starts first, or the old worker drains first."""

    ROLLING = "RollingUpdate"
    RECREATE = "Recreate"


@attrs.frozen(kw_only=True, slots=True)
class Framework:
    """The socket on which the user's container listens, and the paths that it answers."""

    RULES: ClassVar[tuple[Rule, ...]] = (FREE_SOCKET_PATH,)

    socketPath: SocketPath = DEFAULT_SOCKET
    invokePath: UrlPath = "/invoke"
    healthPath: UrlPath = "/healthz"


@attrs.frozen(kw_only=True, slots=True)
class WorkerOf:
    """The unit that declares the function. The platform sets it on the workers that it creates."""

    name: Name
    uid: UID


@attrs.frozen(kw_only=True, slots=True)
class Serverless:
    """A function. The unit that declares it is only a template; its workers are other units."""

    RULES: ClassVar[tuple[Rule, ...]] = (WORKER_RANGE,)

    requestID: Annotated[RequestID, Schema(description="The function's name.")]
    minAvailableCount: Annotated[int, Schema(minimum=0, maximum=MOST_WORKERS)] = 0
    maxWorkers: Annotated[int, Schema(minimum=1, maximum=MOST_WORKERS)] = 10
    idleTimeoutSeconds: Annotated[int, Schema(minimum=0, maximum=7 * _DAY_SECONDS)] = 300
    concurrency: Annotated[
        int, Schema(minimum=1, maximum=1000, description="Concurrent calls in one worker.")
    ] = 1
    timeoutSeconds: Annotated[
        int,
        Schema(minimum=1, maximum=_DAY_SECONDS, description="The longest time of one attempt."),
    ] = 300
    maxAttempts: Annotated[int, Schema(minimum=1, maximum=100)] = 5
    update: Annotated[
        str,
        Schema(
            enum=tuple(Update),
            description="RollingUpdate starts a worker's successor before it drains the worker; "
            "Recreate drains it first.",
        ),
    ] = Update.ROLLING
    framework: Framework = Framework()
    workerOf: WorkerOf | None = None


@attrs.frozen(kw_only=True, slots=True)
class ServerlessStatus:
    desiredWorkers: int = 0
    readyWorkers: int = 0
    busyWorkers: int = 0
    drainingWorkers: int = 0
    outdatedWorkers: Annotated[
        int, Schema(description="Workers of an earlier template that are to be replaced.")
    ] = 0
    depth: Annotated[int, Schema(description="Invocations queued or running.")] = 0
    oldestWaitSeconds: int = 0
    reason: Annotated[
        str, Schema(maxLength=128, description="Why workers are missing, if they are.")
    ] = ""
    message: Annotated[
        str, Schema(maxLength=LONGEST_MESSAGE, description="The reason in words.")
    ] = ""


def worker_name(template: str, number: int) -> str:
    """Return the name of a worker's unit; a long template name is cut, and the number kept."""
    suffix = f"-w-{number}"
    return cut_with_hash(template, longest=LONGEST_LABEL - len(suffix)) + suffix
