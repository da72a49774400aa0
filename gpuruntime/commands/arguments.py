"""Nouns, verbs and flags of the commands as tables; parsing them imports no client."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

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
PROGRAM_EXIT_CODES: Final = """exit codes:
  125  the program was not run
  255  the connection was cut off; the program may run on
  any other is that of the program
"""
NOT_RUN: Final = 125


@attrs.frozen(slots=True)
class Argument:
    """A flag or a position, as `add_argument` takes it."""

    names: tuple[str, ...]
    options: Mapping[str, Any]


@attrs.frozen(slots=True)
class Verb:
    """A verb under its nouns, such as `units list`; `is_listed` says that `-o` sets its form.

    Arguments in a tuple of their own exclude each other. After two dashes follows a container's
    command, if the verb takes one. The verb ends with that command's exit code if it `runs_it`.
    """

    action: str
    text: str
    arguments: tuple[Argument | tuple[Argument, ...], ...] = ()
    is_listed: bool = attrs.field(default=True, kw_only=True)
    takes_command: bool = attrs.field(default=False, kw_only=True)
    runs_it: bool = attrs.field(default=False, kw_only=True)


class Parser(argparse.ArgumentParser):
    """A parser that takes a container's command after two dashes, also behind a name.

    Argparse itself would give an optional position its value together with the name.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        if self.get_default("words") is None or "--" not in words:
            return super().parse_known_args(words, namespace)
        at = words.index("--")
        found, unknown = super().parse_known_args(words[:at], namespace)
        found.words = words[at + 1 :]
        return found, unknown

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and name the two dashes if only a program's words are left over."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            takes_command = hasattr(found, "words") and not unknown[0].startswith("-")
            hint = f": a program stands after two dashes: -- {' '.join(unknown)}"
            self.error(
                f"unrecognized arguments: {' '.join(unknown)}{hint if takes_command else ''}"
            )
        return found

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        """Exit. A verb that ends with a program's exit code has its own for wrong usage."""
        super().exit(status and (self.get_default("own_code") or status), message)


def arg(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


def _seconds(text: str) -> float:
    try:
        return parse_duration(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _any_case(flag: str, *choices: str, **options: Any) -> Argument:
    """Return a flag with choices that may be typed in any case."""
    exact = {each.lower(): each for each in choices}
    return arg(flag, type=lambda text: exact.get(text.lower(), text), choices=choices, **options)


def _state(*states: str) -> Argument:
    """Return the flag of the state to wait for; the first one is the default."""
    return arg("--for", dest="state", choices=states, default=states[0])


NAME: Final = arg("name", metavar="NAME")
NAMES: Final = arg("names", metavar="NAME", nargs="+")
STORAGE: Final = arg("name", metavar="STORAGE")
FUNCTION: Final = arg("function", metavar="FUNCTION")
INVOCATION: Final = arg("id", metavar="ID")
LETTERS: Final = arg("ids", metavar="ID", nargs="+")
JOB: Final = arg("operation", metavar="OPERATION")
PATH: Final = arg("path")
FILE: Final = arg(
    "-f", "--file", metavar="FILE", help="the body in YAML or JSON; - for stdin; flags override it"
)
OPERATION: Final = arg("--operation", metavar="ID", help="the same id again does not repeat it")
CHOSEN_NAME: Final = arg("--name", help="by default the spec and a hash of the operation")
OF_SPEC: Final = arg("--spec", metavar="SPEC")
IMAGE: Final = arg("--image")
TENANT: Final = arg("--tenant")
SPEC: Final = arg("--spec", metavar="SPEC", help="its specName")
REPLICAS: Final = arg("--replicas", type=_count)
ENVELOPE: Final = (
    SPEC,
    REPLICAS,
    arg("--cpu"),
    arg("--memory"),
    arg("--gpu", type=_count),
    arg("--gpu-product"),
)
REFILL: Final = _any_case("--refill", "Always", "Never")
ACCESSOR: Final = arg(
    "--files", choices=("off", "read", "write"), help="whether its files are served"
)
IF_MATCH: Final = arg(
    "--if-match", default="", metavar="ETAG", help="only the version with this ETag"
)
WATCH: Final = arg("-w", "--watch", action="store_true", help="continue, and show every change")
TIMEOUT: Final = arg(
    "--timeout", type=_seconds, default=600.0, metavar="TIME", help="such as 30s or 10m"
)
WAIT: Final = (
    arg("--wait", action="store_true", help="wait until it is done, and show the progress"),
    TIMEOUT,
)
CONTAINER: Final = (
    IMAGE,
    arg("--port", action="append", metavar="[NAME:]NUMBER", help="repeatable"),
    arg("--env", action="append", metavar="NAME=VALUE", help="repeatable"),
    arg("--env-secret", action="append", metavar="NAME=SECRET:KEY", help="repeatable"),
    arg("--file-secret", action="append", metavar="PATH=SECRET:KEY", help="repeatable"),
    arg("--pull-secret", action="append", metavar="SECRET", help="repeatable"),
    arg("--mount", action="append", metavar="STORAGE:PATH[:ro]", help="repeatable"),
    arg("--function", metavar="ID", help="declare a function of this requestID"),
    arg(
        "--ssh-key",
        action="append",
        metavar="FILE",
        help="a file with public keys that may log in by SSH; repeatable",
    ),
    arg("--wake", choices=("on", "off"), help="whether a request may resume the suspended unit"),
)
TICKET: Final = (
    NAME,
    arg(
        "--use",
        action="append",
        choices=("http", "exec", "forward", "ssh"),
        required=True,
        help="repeatable",
    ),
    arg("--port", default="", help="its name or number; needed for http"),
    arg("--seconds", type=_count, help="how long it counts; 900 by default"),
    arg("--label", default="", help="for the log of the API"),
)

# fmt: off
NOUNS: Final = {
    "units": "units: claimed from stock, running an image",
    "units tickets": "tickets, with which their bearers reach a unit through the gateway",
    "tickets": "tickets of units, as below `units`",
    "stock": "stock: units that wait to be claimed",
    "pools": "stock pools: how much stock there should be",
    "storages": "storages: volumes that outlive units",
    "storages files": "files of a storage, while its accessor serves them",
    "secrets": "secrets: values that units use, and that nobody can read back",
    "functions": "functions: their work and their workers",
    "invocations": "invocations: the state and the result of calls",
    "dead-letters": "dead letters: calls that used up their attempts",
}
# The last word of a verb, and another word for it; a noun may also be in its other number.
SYNONYMS: Final = {"list": "ls", "ls": "list", "delete": "rm", "rm": "delete"}
VERBS: Final = (
    Verb("units list", "list units by name", (
        _any_case("--phase", "Progressing", "Ready", "Suspended", "Failed"), OF_SPEC,
        arg("--lifecycle", choices=("instance", "stock", "all")), TENANT, WATCH)),
    Verb("units get", "show a unit", (
        NAME, arg("--lifecycle", choices=("instance", "stock"), default="instance"), WATCH)),
    Verb("units create", "claim stock and start a unit on it", (
        FILE, OPERATION, CHOSEN_NAME, SPEC, TENANT, *CONTAINER, *WAIT), takes_command=True),
    Verb("units update", "change a unit; fields that are not given stay", (
        NAME, FILE, *CONTAINER, IF_MATCH, *WAIT), takes_command=True),
    Verb("units suspend", "delete a unit's Pod, and keep its name and storages", (NAME, *WAIT)),
    Verb("units resume", "run a suspended unit again", (NAME, *WAIT)),
    Verb("units delete", "delete units", (NAMES, *WAIT), is_listed=False),
    Verb("units wait", "wait until a unit is ready, suspended or deleted", (
        NAME, _state("ready", "suspended", "deleted"), TIMEOUT)),
    Verb("units logs", "the log of a unit's Pod", (
        NAME, arg("-f", "--follow", action="store_true", help="continue until it ends"),
        arg("--tail", type=_count, metavar="LINES"),
        arg("--since", type=_seconds, metavar="TIME", help="such as 90s or 10m"),
        arg("-p", "--previous", action="store_true", help="the run before the last restart"),
        arg("--timestamps", action="store_true", help="each line after its time"),
        arg("-c", "--container", default="")),
        is_listed=False),
    Verb("units events", "events of a unit, newest first", (NAME,)),
    Verb("units open", "print the URL of a port, and open it in a browser", (
        NAME, arg("port", nargs="?", metavar="PORT", default="",
                  help="its name or number; by default the only declared TCP port"),
        arg("--print", action="store_true", help="only print it")), is_listed=False),
    Verb("units exec", "run a program in a unit's container", (
        NAME, arg("-i", "--input", action="store_true", help="pass stdin on"),
        arg("-t", "--tty", action="store_true", help="give the program a terminal")),
        is_listed=False, takes_command=True, runs_it=True),
    Verb("units shell", "run a login shell in a unit's container", (NAME,),
        is_listed=False, runs_it=True),
    Verb("units ssh", "run OpenSSH; behind two dashes its options and a command", (
        NAME,
        (arg("--stdio", action="store_true", help="carry the connection, as a ProxyCommand"),
         arg("--config", action="store_true", help="print a host for ~/.ssh/config"))),
        is_listed=False, takes_command=True, runs_it=True),
    Verb("units forward", "forward local ports to ports of a unit, until Ctrl-C", (
        NAME, arg("ports", nargs="+", metavar="[LOCAL:]PORT",
                  help="an empty LOCAL takes any free port")), is_listed=False),
    Verb("units cp", "copy a file or a folder into a unit, or out of it", (
        arg("source", metavar="SRC", help="a local path, or NAME:PATH in a unit"),
        arg("target", metavar="DST", help="the other of the two"),
        arg("-r", "--recursive", action="store_true", help="folders with everything in them")),
        is_listed=False),
    Verb("units wake", "resume a suspended unit whose access.wake is on", (NAME, *WAIT)),
    Verb("units tickets create", "print a new ticket for a unit", TICKET),
    Verb("units tickets revoke", "end all tickets of a unit", (NAME,)),
    Verb("tickets create", "print a new ticket for a unit", TICKET),
    Verb("tickets revoke", "end all tickets of a unit", (NAME,)),

    Verb("stock list", "list stock units by name", (
        OF_SPEC, _any_case("--phase", "Progressing", "Ready", "Failed"), WATCH)),
    Verb("stock get", "show a stock unit", (NAME,)),
    Verb("stock seed", "create stock units once", (
        FILE, OPERATION, CHOSEN_NAME, *ENVELOPE, *WAIT)),
    Verb("stock jobs", "list seedings by operationID"),
    Verb("stock job", "show the progress of a seeding", (JOB,)),
    Verb("stock wait", "wait until all units of a seeding are ready", (JOB, TIMEOUT)),

    Verb("pools list", "list pools by name", (WATCH,)),
    Verb("pools get", "show a pool", (NAME,)),
    Verb("pools create", "create a pool", (
        FILE, OPERATION, CHOSEN_NAME, *ENVELOPE,
        arg("--image", help="the image of stock Pods, so that nodes have it"), REFILL, *WAIT)),
    Verb("pools update", "change a pool; fields that are not given stay", (
        NAME, FILE, REPLICAS, IMAGE, REFILL, IF_MATCH, *WAIT)),
    Verb("pools delete", "delete pools and their unclaimed stock", (NAMES, *WAIT),
        is_listed=False),
    Verb("pools wait", "wait until a pool is ready or deleted", (
        NAME, _state("ready", "deleted"), TIMEOUT)),

    Verb("storages list", "list storages by name", (WATCH,)),
    Verb("storages get", "show a storage", (NAME,)),
    Verb("storages create", "create a storage", (
        FILE, OPERATION, CHOSEN_NAME, arg("--size", help="such as 10Gi"),
        arg("--class", dest="storage_class", metavar="CLASS"),
        arg("--copy", metavar="STORAGE", help="copy the content of this storage"),
        TENANT, ACCESSOR, *WAIT)),
    Verb("storages update", "let a storage grow, or serve its files", (
        NAME, FILE, arg("--size", help="such as 20Gi; never smaller"), ACCESSOR, IF_MATCH, *WAIT)),
    Verb("storages delete", "delete storages and their content", (NAMES, *WAIT), is_listed=False),
    Verb("storages wait", "wait until a storage is ready, serves its files, or is deleted", (
        NAME, _state("ready", "files", "deleted"), TIMEOUT)),
    Verb("storages recover", "run a failed prepare again", (NAME, *WAIT)),

    Verb("storages files ls", "list a folder", (STORAGE, arg("path", nargs="?", default=""))),
    Verb("storages files get", "read a file", (
        STORAGE, PATH,
        arg("target", nargs="?", default="", help="a local file, or - for stdout")),
        is_listed=False),
    Verb("storages files put", "write a file", (
        STORAGE, arg("source", help="a local file, or - for stdin"),
        arg("path", nargs="?", default="",
            help="its path in the storage; by default its local name")), is_listed=False),
    Verb("storages files rm", "delete a file, or a folder with everything in it", (STORAGE, PATH),
        is_listed=False),
    Verb("storages files mkdir", "create a folder", (STORAGE, PATH), is_listed=False),

    Verb("secrets list", "list the names of secrets", (TENANT, WATCH)),
    Verb("secrets create", "store a secret, or replace all its values", (
        NAME, FILE,
        arg("--from-literal", action="append", metavar="KEY=VALUE", help="repeatable"),
        arg("--from-file", action="append", metavar="[KEY=]FILE",
            help="repeatable; - for stdin"),
        arg("--registry", metavar="SERVER", help="a login to an image registry"),
        arg("--username", metavar="NAME"),
        arg("--password-file", metavar="FILE", help="- for stdin"), TENANT)),
    Verb("secrets delete", "delete secrets; running Pods keep what they have of them", (
        NAMES, TENANT), is_listed=False),

    Verb("functions list", "list functions by name", (WATCH,)),
    Verb("functions get", "show a function with its work and its workers", (FUNCTION, WATCH)),
    Verb("invoke", "call a function", (
        FUNCTION,
        (arg("--data", metavar="JSON", help="the payload"),
         arg("--file", metavar="FILE", help="a file with the payload; - for stdin")),
        arg("--id", metavar="ID", help="the same id again does not run it again"),
        arg("--life", type=_seconds, metavar="TIME", help="from acceptance to its end"),
        arg("--attempt", type=_seconds, metavar="TIME", help="the longest time of one attempt"),
        arg("--sync", action="store_true", help="print the answer; --timeout bounds the wait"),
        *WAIT)),
    Verb("invocations list", "list a function's invocations, the latest change last", (
        FUNCTION,
        arg("--state", choices=("queued", "running", "succeeded", "failed", "expired", "cancelled",
                                "dead_lettered")), WATCH)),
    Verb("invocations get", "show an invocation", (FUNCTION, INVOCATION)),
    Verb("invocations wait", "wait until an invocation has succeeded", (
        FUNCTION, INVOCATION, TIMEOUT)),
    Verb("invocations cancel", "cancel an invocation", (FUNCTION, INVOCATION), is_listed=False),
    Verb("dead-letters list", "list dead letters, the oldest first", (
        arg("--function", default=""),)),
    Verb("dead-letters redrive", "let dead invocations run again", (LETTERS,)),
    Verb("dead-letters discard", "delete dead letters", (LETTERS,), is_listed=False),

    Verb("flavours", "the units that can be asked for, and how many are ready"),
    Verb("status", "the health of the API and its cluster"),
    Verb("inventory", "nodes, GPUs, and the stock and units of each specName"),
)
# fmt: on


def register(commands: Any, run: Run) -> None:
    """Add every verb below its noun to `commands`, the result of `add_subparsers`."""
    below = {"": commands}
    for verb in VERBS:
        noun, _, name = verb.action.rpartition(" ")
        if noun not in below:
            outer, _, last = noun.rpartition(" ")
            text = NOUNS[noun]
            parser = below[outer].add_parser(
                last, aliases=[_other_number(last)], help=text, description=text
            )
            below[noun] = parser.add_subparsers(required=True, metavar="VERB")
        description = None if noun else verb.text
        aliases = [SYNONYMS[name]] if name in SYNONYMS else []
        parser = below[noun].add_parser(
            name, aliases=aliases, help=verb.text, description=description
        )
        _add_arguments(parser, verb)
        own_code = NOT_RUN if verb.runs_it else 0
        parser.set_defaults(command=run, action=verb.action, output=OUTPUTS[0], own_code=own_code)
        if verb.takes_command:
            usage = parser.format_usage().removeprefix("usage: ").rstrip()
            parser.usage = f"{usage} [-- COMMAND ...]"
            parser.set_defaults(words=[])


def _other_number(noun: str) -> str:
    return noun.removesuffix("s") if noun.endswith("s") else f"{noun}s"


def _add_arguments(parser: argparse.ArgumentParser, verb: Verb) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = PROGRAM_EXIT_CODES if verb.runs_it else EXIT_CODES
    where = parser.add_argument_group("the API")
    where.add_argument("--server", metavar="URL", help="or GPURUNTIME_SERVER")
    where.add_argument("--token-file", metavar="FILE", help="or GPURUNTIME_TOKEN_FILE")
    where.add_argument("--ca-file", metavar="FILE", help="or GPURUNTIME_CA_FILE")
    if verb.is_listed:
        parser.add_argument("-o", "--output", choices=OUTPUTS, default=OUTPUTS[0])
    for each in verb.arguments:
        if isinstance(each, Argument):
            parser.add_argument(*each.names, **each.options)
            continue
        choice = parser.add_mutually_exclusive_group()
        for argument in each:
            choice.add_argument(*argument.names, **argument.options)
