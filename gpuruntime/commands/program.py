"""Run one command, and turn its outcome into messages and an exit code."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from gpuruntime.client.client import connect
from gpuruntime.client.errors import (
    AccessDeniedError,
    ClientError,
    CutOffError,
    DeadlineError,
    GatewayError,
    LostAnswerError,
    NotYetError,
    ProblemError,
    UnreachableGatewayError,
    UnreachableServerError,
    UntrustedServerError,
    UnusableInputError,
)
from gpuruntime.client.options import DEFAULT_SERVER, Options
from gpuruntime.commands import (
    copying,
    files,
    reach,
    secrets,
    serverless,
    ssh,
    status,
    stock,
    storages,
    units,
)
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.session import Session
from gpuruntime.commands.terminal import Terminal, standard
from gpuruntime.errors import ConfigurationError
from gpuruntime.settings.client import ClientSettings

Command = Callable[[Session], Awaitable[int | None]]

ACTIONS: Final[Mapping[str, Command]] = {
    "units list": units.list_units,
    "units get": units.get,
    "units create": units.create,
    "units update": units.update,
    "units suspend": units.suspend,
    "units resume": units.resume,
    "units delete": units.delete,
    "units wait": units.wait,
    "units logs": units.logs,
    "units events": units.events,
    "units tickets create": units.create_ticket,
    "units open": reach.open_port,
    "units exec": reach.execute,
    "units shell": reach.shell,
    "units forward": reach.forward,
    "units cp": copying.copy,
    "units ssh": ssh.ssh,
    "units wake": reach.wake,
    "units tickets revoke": units.revoke_tickets,
    "tickets create": units.create_ticket,
    "tickets revoke": units.revoke_tickets,
    "stock list": units.list_stock,
    "stock get": units.get_stock,
    "stock seed": stock.seed,
    "stock jobs": stock.jobs,
    "stock job": stock.job,
    "stock wait": stock.wait,
    "pools list": stock.list_pools,
    "pools get": stock.get_pool,
    "pools create": stock.create_pool,
    "pools update": stock.update_pool,
    "pools delete": stock.delete_pools,
    "pools wait": stock.wait_for_pool,
    "storages list": storages.list_storages,
    "storages get": storages.get,
    "storages create": storages.create,
    "storages update": storages.update,
    "storages delete": storages.delete,
    "storages wait": storages.wait,
    "storages recover": storages.recover,
    "storages files ls": files.ls,
    "storages files get": files.get,
    "storages files put": files.put,
    "storages files rm": files.rm,
    "storages files mkdir": files.mkdir,
    "secrets list": secrets.list_secrets,
    "secrets create": secrets.create,
    "secrets delete": secrets.delete,
    "functions list": serverless.list_functions,
    "functions get": serverless.get_function,
    "invoke": serverless.invoke,
    "invocations list": serverless.list_invocations,
    "invocations get": serverless.get,
    "invocations wait": serverless.wait,
    "invocations cancel": serverless.cancel,
    "dead-letters list": serverless.list_letters,
    "dead-letters redrive": serverless.redrive,
    "dead-letters discard": serverless.discard,
    "status": status.status,
    "inventory": status.inventory,
    "flavours": status.flavours,
}
# The API's remedy for a lack of stock names a route; a person at a shell has a command for it.
_FLAVOURS: Final = ("GET /api/v1/flavours", "`gpuruntime flavours`")
_NO_ANSWER: Final = (
    UnreachableServerError,
    UntrustedServerError,
    UnreachableGatewayError,
    LostAnswerError,
    CutOffError,
    GatewayError,
    DeadlineError,
)


def run(options: argparse.Namespace, settings: ClientSettings) -> int:
    terminal = standard(has_colours=settings.has_colours)
    try:
        return asyncio.run(perform(options, settings, terminal))
    except KeyboardInterrupt:
        terminal.done_showing()
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader is gone; without this the interpreter would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE


async def perform(
    options: argparse.Namespace, settings: ClientSettings, terminal: Terminal
) -> int:
    try:
        async with connect(_options(settings)) as client:
            session = Session(client=client, terminal=terminal, options=options, settings=settings)
            return await ACTIONS[options.action](session) or ExitCode.DONE
    except (ClientError, ConfigurationError) as error:
        told = "; ".join((words_of(error), *getattr(error, "__notes__", ())))
        terminal.report(f"gpuruntime {options.action}: {told}")
        return options.own_code or code_of(error)
    finally:
        terminal.done_showing()


def code_of(error: ClientError | ConfigurationError) -> ExitCode:
    match error:
        case ConfigurationError() | UnusableInputError():
            return ExitCode.USAGE
        case NotYetError():
            return ExitCode.TIMED_OUT
        case _ if isinstance(error, _NO_ANSWER):
            return ExitCode.NO_ANSWER
        case _:
            return ExitCode.REFUSED


def words_of(error: ClientError | ConfigurationError) -> str:
    """Return one line that says what is wrong, and the remedy if one is known."""
    if isinstance(error, ProblemError) and error.details:
        faults = "; ".join(f"{each.field}: {each.message}" for each in error.details)
        return f"{faults} ({error.code}, {error.status})"
    if isinstance(error, AccessDeniedError) and error.status == HTTPStatus.UNAUTHORIZED:
        return f"{error}; give the caller's token by --token-file or GPURUNTIME_TOKEN"
    if isinstance(error, UnreachableServerError):
        return f"{error}; set the API's address by --server or GPURUNTIME_SERVER"
    return str(error).replace(*_FLAVOURS)


def _options(settings: ClientSettings) -> Options:
    return Options(
        server=settings.server or DEFAULT_SERVER,
        token=settings.token,
        token_file=settings.token_file,
        ca_file=settings.ca_file,
    )
