"""The server's version, which is also the first question whether it is there at all."""

import attrs

from gpuruntime.kube.answers import Call, error_of
from gpuruntime.kube.errors import MalformedAnswerError, OutcomeUnknownError, UnreachableError
from gpuruntime.kube.transport import Request, Transport
from gpuruntime.models.encoding import codec

REMEDY = "check that the API server runs and can be reached from here"


@attrs.frozen(kw_only=True, slots=True)
class _Version:
    gitVersion: str = ""


async def server_version(transport: Transport, *, timeout_seconds: float = 5.0) -> str:
    """Raises UnreachableError when nobody answers; any other answer is the error it means."""
    call = Call("get", "version")
    request = Request(method="GET", path="/version", timeout_seconds=timeout_seconds)
    try:
        response = await transport.request(request)
    except (UnreachableError, OutcomeUnknownError) as error:
        raise UnreachableError(f"{error}: {REMEDY}") from error
    if response.status != 200:
        raise error_of(response, call)
    try:
        return codec.decode(response.body, _Version).gitVersion
    except codec.MalformedObjectError as error:
        raise MalformedAnswerError(f"{call}: not an API server's answer: {error}") from error
