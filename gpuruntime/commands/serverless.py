"""Verbs of functions, invocations and dead letters."""

from math import ceil
from typing import Final

from gpuruntime.client import waiting
from gpuruntime.client.requests import named
from gpuruntime.commands import bodies, values
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.progress import Progress
from gpuruntime.commands.session import Session
from gpuruntime.models.kinds.invocations import State
from gpuruntime.models.requests.invocations import LIFE_SECONDS, Invoke
from gpuruntime.models.views.serverless import (
    AcceptedView,
    DeadLetterView,
    FunctionView,
    InvocationSummary,
    InvocationView,
)

# How long a synchronous call may take before its progress is shown.
SILENT_WAIT_SECONDS: Final = 2.0


async def list_functions(session: Session) -> None:
    await session.print_list(
        FunctionView, session.client.functions.list, lambda view: view.serverlessRequestID
    )


async def get_function(session: Session) -> None:
    function = session.options.function
    await session.print_view(lambda: session.client.functions.get(function))


async def list_invocations(session: Session) -> None:
    asked = session.options
    await session.print_list(
        InvocationSummary,
        lambda: session.client.invocations.list(asked.function, state=asked.state or ""),
        lambda view: view.invocationID,
    )


async def invoke(session: Session) -> int:
    asked = session.options
    identity = str(named({"invocationID": asked.id}, "invocationID")["invocationID"])
    invocation = Invoke(
        invocationID=identity,
        serverlessRequestID=asked.function,
        payload=bodies.payload_of(asked.data, asked.file),
        timeoutSeconds=None if asked.attempt is None else ceil(asked.attempt),
        lifeSeconds=LIFE_SECONDS if asked.life is None else ceil(asked.life),
        waitSeconds=int(min(asked.timeout, SILENT_WAIT_SECONDS)),
    )
    with session.with_id("--id", identity):
        if asked.sync:
            return _answered(session, await _called(session, invocation))
        accepted = (await session.client.invocations.submit(invocation)).data
    if asked.wait:
        return _answered(session, await _ended(session, accepted.invocationID))
    session.print_one(accepted)
    return ExitCode.DONE


async def get(session: Session) -> None:
    asked = session.options
    await session.print_view(lambda: session.client.invocations.get(asked.function, asked.id))


async def wait(session: Session) -> int:
    return _answered(session, await _ended(session, session.options.id))


async def cancel(session: Session) -> None:
    asked = session.options
    await session.client.invocations.cancel(asked.function, asked.id)
    session.terminal.report(f"invocation {asked.id} is cancelled")


async def list_letters(session: Session) -> None:
    letters = session.client.dead_letters.list(session.options.function)
    session.print_many(DeadLetterView, [each async for each in letters])


async def redrive(session: Session) -> ExitCode:
    accepted: list[AcceptedView] = []

    async def redrive_one(letter: str) -> None:
        accepted.append((await session.client.dead_letters.redrive(letter)).data)

    code = await session.each(session.options.ids, redrive_one)
    session.print_many(AcceptedView, accepted)
    return code


async def discard(session: Session) -> ExitCode:
    async def discard_one(letter: str) -> None:
        await session.client.dead_letters.discard(letter)
        session.terminal.report(f"dead letter {letter} is discarded")

    return await session.each(session.options.ids, discard_one)


def _answered(session: Session, view: InvocationView) -> int:
    """Print the function's own answer, or the whole invocation if it did not succeed."""
    if session.options.output != "table":
        session.print_one(view)
    elif view.state == State.SUCCEEDED:
        session.terminal.answer(values.as_json(view.body))
    else:
        session.print_one(view, in_full=True)
    return ExitCode.DONE if view.state == State.SUCCEEDED else ExitCode.REFUSED


async def _called(session: Session, invocation: Invoke) -> InvocationView:
    """Return the end of the call; after a short wait, show what it still waits for."""
    view = (await session.client.invocations.call(invocation)).data
    if State(view.state).is_terminal:
        return view
    progress = Progress(session.terminal, invocation.invocationID)
    progress.state(view)
    return await waiting.until_ended(
        session.client,
        invocation.serverlessRequestID,
        invocation.invocationID,
        timeout_seconds=max(session.options.timeout - invocation.waitSeconds, 0.0),
        tell=progress.state,
    )


async def _ended(session: Session, invocation: str) -> InvocationView:
    function = session.options.function
    progress = Progress(session.terminal, invocation)
    return await waiting.until_succeeded(
        session.client,
        function,
        invocation,
        timeout_seconds=session.options.timeout,
        tell=progress.state,
    )
