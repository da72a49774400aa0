"""The program's subcommands; each imports its code only when it runs."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from gpuruntime.commands import arguments
from gpuruntime.errors import ClusterRequiredError, ConfigurationError
from gpuruntime.settings import client as client_settings
from gpuruntime.settings.load import NO_DEFAULTS, load
from gpuruntime.settings.schema import KubernetesMode, LogFormat, LogLevel, Settings

if TYPE_CHECKING:
    from gpuruntime.roles.lifecycle import Role

BREACH = 1
USAGE_ERROR = 2
CLUSTER_ERROR = 3
# The flags, and the configuration keys that they override.
FLAGS = {
    "listen": ("listen",),
    "kube_mode": ("kubernetes", "mode"),
    "kubeconfig": ("kubernetes", "kubeconfig"),
    "context": ("kubernetes", "context"),
    "log_level": ("logging", "level"),
}


def main(words: Sequence[str] | None = None) -> int:
    options = parser().parse_args(words)
    try:
        return int(options.command(options))
    except ConfigurationError as error:
        print(f"gpuruntime: {error}", file=sys.stderr)  # noqa: T201 - before logging is set up
        return USAGE_ERROR
    except ClusterRequiredError as error:
        print(f"gpuruntime: {error}", file=sys.stderr)  # noqa: T201 - a command without logs
        return CLUSTER_ERROR


def parser() -> argparse.ArgumentParser:
    program = arguments.Parser(
        prog="gpuruntime", description="The control plane of a GPU cloud on Kubernetes."
    )
    program.add_argument(
        "--version",
        action="store_const",
        dest="command",
        const=_version,
        default=lambda _: _help(program),
        help="print the version",
    )
    commands = program.add_subparsers(metavar="COMMAND")
    for name, command, text in (
        ("manager", _manager, "reconcile units, pools and storages (one leader)"),
        ("api", _api, "serve the REST API (any number of replicas)"),
        ("activator", _activator, "claim workers for functions that are called (one leader)"),
        ("worker", _worker, "run the invocations of one function, beside its container"),
        ("results", _results, "keep results, and end overdue invocations"),
        ("gateway", _gateway, "let callers with tickets reach units (any number of replicas)"),
    ):
        role = commands.add_parser(name, help=text)
        _add_role_flags(role)
        role.set_defaults(command=command)
    dev = commands.add_parser("dev", help="run everything in one process, on an embedded cluster")
    _add_role_flags(dev)
    dev.add_argument(
        "--only", choices=["cluster"], help="run the embedded cluster without any role"
    )
    dev.add_argument(
        "--state",
        default="",
        metavar="DIR",
        help="keep everything in this folder over restarts (default: keep nothing)",
    )
    dev.set_defaults(command=_dev)
    audit = commands.add_parser(
        "audit", help="check a cluster against the invariants (exit 1: breaches)"
    )
    _add_audit_flags(audit)
    audit.set_defaults(command=_audit)
    commands.add_parser("crds", help="print the CRDs as YAML").set_defaults(command=_crds)
    manifests = commands.add_parser(
        "manifests", help="print the manifests that install the product, as YAML"
    )
    manifests.add_argument(
        "overlay",
        nargs="?",
        choices=["minimal", "full"],
        default="minimal",
        help="the overlay to print (default: minimal)",
    )
    manifests.set_defaults(command=_manifests)
    completion = commands.add_parser("completion", help="print the completion of a shell")
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])
    completion.set_defaults(command=lambda options: _completion(options, program))
    commands.add_parser("version", help="print the version").set_defaults(command=_version)
    arguments.register(commands, _client)
    return program


def _add_role_flags(parser: argparse.ArgumentParser) -> None:
    _add_cluster_flags(parser)
    parser.add_argument("--listen", help="host:port of the role's own server")
    parser.add_argument(
        "--kube-mode",
        choices=[mode.value for mode in KubernetesMode],
        help="use a cluster if there is one, never, or always",
    )
    parser.add_argument(
        "--log-level",
        choices=[level.value for level in LogLevel],
        help="lowest level that is logged",
    )


def _add_audit_flags(parser: argparse.ArgumentParser) -> None:
    _add_cluster_flags(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "json"],
        default="table",
        help="form of the report (default: table)",
    )
    parser.add_argument(
        "--for",
        dest="watch_seconds",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long to watch suspicions that may resolve by themselves",
    )


def _add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="", metavar="FILE", help="YAML configuration")
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="kubeconfig (default: the Pod's account, or kubectl's files)",
    )
    parser.add_argument("--context", help="context of the kubeconfig (default: its current one)")


def _settings(
    options: argparse.Namespace, defaults: Mapping[tuple[str, ...], str] = NO_DEFAULTS
) -> Settings:
    flags = {
        keys: value
        for name, keys in FLAGS.items()
        if (value := getattr(options, name, None)) is not None
    }
    return load(options.config, flags=flags, defaults=defaults)


def _configure_logs(loaded: Settings) -> None:
    from gpuruntime.telemetry import logs

    is_json = loaded.logging.format is LogFormat.JSON
    logs.configure(level=loaded.logging.level.value, is_json=is_json)


def _manager(options: argparse.Namespace) -> int:
    from gpuruntime.roles.manager import manager_role

    return _run_role(options, manager_role)


def _api(options: argparse.Namespace) -> int:
    from gpuruntime.roles.api import api_role

    return _run_role(options, api_role)


def _activator(options: argparse.Namespace) -> int:
    from gpuruntime.roles.activator import activator_role

    return _run_role(options, activator_role)


def _worker(options: argparse.Namespace) -> int:
    from gpuruntime.roles.worker import worker_role

    return _run_role(options, partial(worker_role, reread=lambda: _settings(options)))


def _results(options: argparse.Namespace) -> int:
    from gpuruntime.roles.results import results_role

    return _run_role(options, results_role)


def _gateway(options: argparse.Namespace) -> int:
    from gpuruntime.roles.gateway import gateway_role

    return _run_role(options, gateway_role)


def _run_role(options: argparse.Namespace, role: "Callable[[Settings], Role]") -> int:
    from gpuruntime.roles import lifecycle

    loaded = _settings(options)
    _configure_logs(loaded)
    return lifecycle.run_to_exit(lambda: role(loaded), grace_seconds=loaded.shutdownGrace)


def _dev(options: argparse.Namespace) -> int:
    from gpuruntime.roles import lifecycle
    from gpuruntime.roles.dev import dev, ports

    free = ports.free_addresses()
    form = LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON
    loaded = _settings(options, {**free, ("logging", "format"): form.value})
    _configure_logs(loaded)
    ports.log_others(loaded, free)
    return lifecycle.run_to_exit(
        lambda: dev.Dev(loaded, only_cluster=options.only == "cluster", state=options.state),
        grace_seconds=loaded.shutdownGrace,
    )


def _audit(options: argparse.Namespace) -> int:
    loaded = _settings(options)
    _configure_logs(loaded)
    from gpuruntime.roles import audit

    report = asyncio.run(audit.audit(loaded, watch_seconds=options.watch_seconds))
    text = audit.as_json(report) if options.output == "json" else audit.as_table(report)
    print(text)  # noqa: T201 - the command's answer
    return BREACH if report.breaches else 0


def _crds(_: argparse.Namespace) -> int:
    from gpuruntime.models.definitions import crds

    print(crds.render(), end="")  # noqa: T201 - the command's answer
    return 0


def _manifests(options: argparse.Namespace) -> int:
    from gpuruntime.manifests import overlays

    print(overlays.text_of(overlays.Overlay(options.overlay)), end="")  # noqa: T201 - the command's answer
    return 0


def _client(options: argparse.Namespace) -> int:
    from gpuruntime.commands import program

    return program.run(options, client_settings.load(vars(options)))


def _help(program: argparse.ArgumentParser) -> int:
    program.print_help()
    return 0


def _completion(options: argparse.Namespace, program: argparse.ArgumentParser) -> int:
    from gpuruntime.commands import completion

    print(completion.script_of(options.shell, program), end="")  # noqa: T201 - the command's answer
    return 0


def _version(_: argparse.Namespace) -> int:
    print(version("gpuruntime"))  # noqa: T201 - the command's answer
    return 0
