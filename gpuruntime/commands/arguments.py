"""Nouns, verbs and flags of the commands; parsing them imports no client."""

import argparse
from collections.abc import Callable
from typing import Any, Final

from gpuruntime.strict.durations import parse_duration

Run = Callable[[argparse.Namespace], int]

OUTPUTS: Final = ("table", "json", "yaml")
EXIT_CODES: Final = """exit codes:
  0  done
  1  the API refused it, or it failed
  2  usage: a flag, a file or a setting
  3  no server answered
  4  the time to wait is over; it may still come
"""


def register(commands: Any, run: Run) -> None:
    """Add every noun to `commands`, the result of `add_subparsers`."""
    for add in (_units, _stock, _pools, _storages, _functions, _invocations, _letters, _status):
        add(commands, run)


class Noun:
    """A noun with its verbs; `path` is the words before the verb, and begins the action's name."""

    def __init__(self, commands: Any, run: Run, path: str, text: str) -> None:
        self.path = path
        self._run = run
        parser = commands.add_parser(path.rpartition(" ")[2], help=text, description=text)
        self._verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(self, name: str, text: str, *, is_listed: bool = True) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = self._verbs.add_parser(name, help=text)
        return action(parser, self._run, f"{self.path} {name}", is_listed=is_listed)

    def group(self, name: str, text: str) -> "Noun":
        return Noun(self._verbs, self._run, f"{self.path} {name}", text)


def action(
    parser: argparse.ArgumentParser, run: Run, name: str, *, is_listed: bool = True
) -> argparse.ArgumentParser:
    """Add what every command takes; `is_listed` says that its answer has several forms."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXIT_CODES
    where = parser.add_argument_group("the API")
    where.add_argument("--server", metavar="URL", help="or GPURUNTIME_SERVER")
    where.add_argument("--token-file", metavar="FILE", help="or GPURUNTIME_TOKEN_FILE")
    where.add_argument("--ca-file", metavar="FILE", help="or GPURUNTIME_CA_FILE")
    if is_listed:
        parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0])
    parser.set_defaults(command=run, action=name, output=OUTPUTS[0])
    return parser


def _units(commands: Any, run: Run) -> None:
    noun = Noun(commands, run, "units", "units: claimed from stock, running an image")
    listing = noun.verb("list", "list units by name")
    listing.add_argument("--phase", choices=("Progressing", "Ready", "Suspended", "Failed"))
    listing.add_argument("--spec", metavar="SPEC")
    listing.add_argument("--lifecycle", choices=("instance", "stock", "all"))
    listing.add_argument("--tenant")
    _watch(listing)
    reading = noun.verb("get", "show a unit")
    _name(reading)
    reading.add_argument("--lifecycle", choices=("instance", "stock"), default="instance")
    _watch(reading)
    _unit_flags(noun.verb("create", "claim stock and start a unit on it"))
    change = noun.verb("update", "change a unit; fields that are not given stay")
    _name(change)
    _file(change)
    change.add_argument("--image")
    _if_match(change)
    _wait(change)
    for name, text in (
        ("suspend", "delete a unit's Pod, and keep its name and storages"),
        ("resume", "run a suspended unit again"),
    ):
        parser = noun.verb(name, text)
        _name(parser)
        _wait(parser)
    gone = noun.verb("delete", "delete units", is_listed=False)
    gone.add_argument("names", metavar="NAME", nargs="+")
    _wait(gone)
    waiting = noun.verb("wait", "wait until a unit is ready, suspended or deleted")
    _name(waiting)
    waiting.add_argument("--for", dest="state", choices=("ready", "suspended", "deleted"))
    waiting.set_defaults(state="ready")
    _timeout(waiting)
    log = noun.verb("logs", "the log of a unit's Pod", is_listed=False)
    _name(log)
    log.add_argument("-f", "--follow", action="store_true", help="continue until it ends")
    log.add_argument("--tail", type=_count, metavar="LINES")
    log.add_argument("-c", "--container", default="")
    _name(noun.verb("events", "events of a unit, newest first"))


def _unit_flags(parser: argparse.ArgumentParser) -> None:
    _file(parser)
    _operation(parser)
    parser.add_argument("--name")
    parser.add_argument("--spec", metavar="SPEC", help="its specName")
    parser.add_argument("--image")
    parser.add_argument("--tenant")
    parser.add_argument("--port", action="append", metavar="NAME:NUMBER", help="repeatable")
    parser.add_argument("--env", action="append", metavar="NAME=VALUE", help="repeatable")
    parser.add_argument("--mount", action="append", metavar="STORAGE:PATH[:ro]", help="repeatable")
    parser.add_argument("--function", metavar="ID", help="declare a function of this requestID")
    parser.add_argument("words", nargs="*", metavar="-- COMMAND", help="what the container runs")
    _wait(parser)


def _stock(commands: Any, run: Run) -> None:
    noun = Noun(commands, run, "stock", "stock: units that wait to be claimed")
    listing = noun.verb("list", "list stock units by name")
    listing.add_argument("--spec", metavar="SPEC")
    listing.add_argument("--phase", choices=("Progressing", "Ready", "Failed"))
    _watch(listing)
    _name(noun.verb("get", "show a stock unit"))
    seed = noun.verb("seed", "create stock units once")
    _file(seed)
    _operation(seed)
    _envelope(seed)
    _wait(seed)
    noun.verb("jobs", "list seedings by operationID")
    job = noun.verb("job", "show the progress of a seeding")
    job.add_argument("operation", metavar="OPERATION")
    waiting = noun.verb("wait", "wait until all units of a seeding are ready")
    waiting.add_argument("operation", metavar="OPERATION")
    _timeout(waiting)


def _pools(commands: Any, run: Run) -> None:
    noun = Noun(commands, run, "pools", "stock pools: how much stock there should be")
    _watch(noun.verb("list", "list pools by name"))
    _name(noun.verb("get", "show a pool"))
    create = noun.verb("create", "create a pool")
    _file(create)
    _operation(create)
    create.add_argument("--name")
    _envelope(create)
    create.add_argument("--image", help="the image of stock Pods, so that nodes have it")
    create.add_argument("--refill", choices=("Always", "Never"))
    _wait(create)
    change = noun.verb("update", "change a pool; fields that are not given stay")
    _name(change)
    _file(change)
    change.add_argument("--replicas", type=_count)
    change.add_argument("--image")
    change.add_argument("--refill", choices=("Always", "Never"))
    _if_match(change)
    _wait(change)
    gone = noun.verb("delete", "delete pools and their unclaimed stock", is_listed=False)
    gone.add_argument("names", metavar="NAME", nargs="+")
    _wait(gone)
    waiting = noun.verb("wait", "wait until a pool is ready or deleted")
    _name(waiting)
    waiting.add_argument("--for", dest="state", choices=("ready", "deleted"))
    waiting.set_defaults(state="ready")
    _timeout(waiting)


def _storages(commands: Any, run: Run) -> None:
    noun = Noun(commands, run, "storages", "storages: volumes that outlive units")
    _watch(noun.verb("list", "list storages by name"))
    _name(noun.verb("get", "show a storage"))
    create = noun.verb("create", "create a storage")
    _file(create)
    _operation(create)
    create.add_argument("--name")
    create.add_argument("--size", help="such as 10Gi")
    create.add_argument("--class", dest="storage_class", metavar="CLASS")
    create.add_argument("--copy", metavar="STORAGE", help="copy the content of this storage")
    create.add_argument("--tenant")
    _accessor(create)
    _wait(create)
    change = noun.verb("update", "let a storage grow, or serve its files")
    _name(change)
    _file(change)
    change.add_argument("--size", help="such as 20Gi; never smaller")
    _accessor(change)
    _if_match(change)
    _wait(change)
    gone = noun.verb("delete", "delete storages and their content", is_listed=False)
    gone.add_argument("names", metavar="NAME", nargs="+")
    _wait(gone)
    waiting = noun.verb("wait", "wait until a storage is ready, serves its files, or is deleted")
    _name(waiting)
    waiting.add_argument("--for", dest="state", choices=("ready", "files", "deleted"))
    waiting.set_defaults(state="ready")
    _timeout(waiting)
    again = noun.verb("recover", "run a failed prepare again")
    _name(again)
    _wait(again)
    _files(noun)


def _files(storages: Noun) -> None:
    noun = storages.group("files", "files of a storage, while its accessor serves them")
    listing = noun.verb("ls", "list a folder")
    _name(listing, "STORAGE")
    listing.add_argument("path", nargs="?", default="")
    fetch = noun.verb("get", "read a file", is_listed=False)
    _name(fetch, "STORAGE")
    fetch.add_argument("path")
    fetch.add_argument("target", nargs="?", default="", help="a local file, or - for stdout")
    send = noun.verb("put", "write a file", is_listed=False)
    _name(send, "STORAGE")
    send.add_argument("source", help="a local file, or - for stdin")
    send.add_argument(
        "path", nargs="?", default="", help="its path in the storage; by default its local name"
    )
    for name, text in (
        ("rm", "delete a file, or a folder with everything in it"),
        ("mkdir", "create a folder"),
    ):
        parser = noun.verb(name, text, is_listed=False)
        _name(parser, "STORAGE")
        parser.add_argument("path")


def _functions(commands: Any, run: Run) -> None:
    noun = Noun(commands, run, "functions", "functions: their work and their workers")
    _watch(noun.verb("list", "list functions by name"))
    text = "call a function"
    parser = action(commands.add_parser("invoke", help=text, description=text), run, "invoke")
    parser.add_argument("function", metavar="FUNCTION")
    payload = parser.add_mutually_exclusive_group()
    payload.add_argument("--data", metavar="JSON", help="the payload")
    payload.add_argument("--file", metavar="FILE", help="a file with the payload; - for stdin")
    parser.add_argument("--id", metavar="ID", help="the same id again does not run it again")
    parser.add_argument("--life", type=_seconds, metavar="TIME", help="from acceptance to its end")
    parser.add_argument("--sync", action="store_true", help="wait for the answer and print it")
    _wait(parser)


def _invocations(commands: Any, run: Run) -> None:
    noun = Noun(commands, run, "invocations", "invocations: the state and the result of calls")
    for name, text in (
        ("get", "show an invocation"),
        ("wait", "wait until an invocation has succeeded"),
        ("cancel", "cancel an invocation"),
    ):
        parser = noun.verb(name, text, is_listed=name != "cancel")
        parser.add_argument("function", metavar="FUNCTION")
        parser.add_argument("id", metavar="ID")
        if name == "wait":
            _timeout(parser)


def _letters(commands: Any, run: Run) -> None:
    noun = Noun(commands, run, "dead-letters", "dead letters: calls that used up their attempts")
    listing = noun.verb("list", "list dead letters, the oldest first")
    listing.add_argument("--function", default="")
    for name, text in (
        ("redrive", "let dead invocations run again"),
        ("discard", "delete dead letters"),
    ):
        parser = noun.verb(name, text, is_listed=name == "redrive")
        parser.add_argument("ids", metavar="ID", nargs="+")


def _status(commands: Any, run: Run) -> None:
    text = "the health of the API and its cluster"
    action(commands.add_parser("status", help=text, description=text), run, "status")
    text = "nodes, GPUs, and the stock and units of each specName"
    action(commands.add_parser("inventory", help=text, description=text), run, "inventory")


def _name(parser: argparse.ArgumentParser, metavar: str = "NAME") -> None:
    parser.add_argument("name", metavar=metavar)


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        help="the body in YAML or JSON; - for stdin; flags override it",
    )


def _operation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operation", metavar="ID", help="the same id again does not repeat it")


def _envelope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", metavar="SPEC", help="its specName")
    parser.add_argument("--replicas", type=_count)
    parser.add_argument("--cpu")
    parser.add_argument("--memory")
    parser.add_argument("--gpu", type=_count)
    parser.add_argument("--gpu-product")


def _accessor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--files", choices=("off", "read", "write"), help="whether its files are served"
    )


def _if_match(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--if-match", default="", metavar="ETAG", help="only the version with this ETag"
    )


def _watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-w", "--watch", action="store_true", help="continue, and show every change"
    )


def _wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", action="store_true", help="wait until it is done, and show the progress"
    )
    _timeout(parser)


def _timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", type=_seconds, default=600.0, metavar="TIME", help="such as 30s or 10m"
    )


def _seconds(text: str) -> float:
    try:
        return parse_duration(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
