"""The request that calls a function, for the API and its clients."""

from typing import Annotated, Any, Final, TypeAlias

import attrs

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.texts import RequestID
from gpuruntime.models.kinds.invocations import Mode

DAY_SECONDS: Final = 86_400
LIFE_SECONDS: Final = 3_600
WAIT_SECONDS: Final = 60
LONGEST_WAIT_SECONDS: Final = 300

# Plain JSON of any shape.
Payload: TypeAlias = Any
InvocationID: TypeAlias = Annotated[
    str, Schema(minLength=1, maxLength=128, pattern=r"^[A-Za-z0-9_-]+$")
]
FunctionID: TypeAlias = Annotated[
    RequestID, Schema(minLength=1, description="The function's name.")
]
ContentType: TypeAlias = Annotated[
    str,
    Schema(
        minLength=1,
        maxLength=256,
        pattern=r"^[!#$&^_.+A-Za-z0-9-]+/[!#$&^_.+A-Za-z0-9-]+( *;[ -~]*)?$",
    ),
]


@attrs.frozen(kw_only=True, slots=True)
class Invoke:
    """A call of a function. Repeated under its id, it is answered again but not run again."""

    invocationID: Annotated[
        InvocationID, Schema(description="Unique within the function; generated if absent.")
    ] = ""
    serverlessRequestID: FunctionID
    mode: Mode = Mode.ASYNC
    contentType: ContentType = "application/json"
    headers: dict[str, str] = attrs.field(factory=dict)
    attributes: dict[str, str] = attrs.field(factory=dict)
    payload: Payload = None
    timeoutSeconds: (
        Annotated[
            int,
            Schema(
                minimum=1,
                maximum=DAY_SECONDS,
                description="The longest time of one attempt, counted from its start; "
                "at most the function's own, which is the default.",
            ),
        ]
        | None
    ) = None
    lifeSeconds: Annotated[
        int,
        Schema(
            minimum=1,
            maximum=DAY_SECONDS,
            description="The invocation's lifetime, counted from its acceptance.",
        ),
    ] = LIFE_SECONDS
    waitSeconds: Annotated[
        int,
        Schema(
            minimum=0,
            maximum=LONGEST_WAIT_SECONDS,
            description="How long a synchronous call waits for the end of the invocation.",
        ),
    ] = WAIT_SECONDS
