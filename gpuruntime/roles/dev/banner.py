"""The banner that dev prints when it is up: addresses, what is kept, and commands to try."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from gpuruntime.settings.access import AuthMode
from gpuruntime.settings.client import VARIABLES, ClientSettings, load
from gpuruntime.settings.dev import DevRun, DevSettings
from gpuruntime.settings.gateway import GatewaySettings
from gpuruntime.settings.schema import Settings

PROGRAM: Final = "gpuruntime"
DEFAULT_SERVER: Final = f"http://{Settings().listen}"
NO_FUNCTIONS: Final = (
    "off: nats.url is empty and there is no nats-server, which `pip install 'gpuruntime[local]'` "
    "brings"
)

NO_SSH: Final = "off: it needs asyncssh, which `pip install 'gpuruntime[local]'` brings"


@attrs.frozen(kw_only=True, slots=True)
class Banner:
    """The facts of one run; `api` is empty if only the cluster runs.

    `caller` is what the environment of dev says of callers.
    """

    settings: Settings
    api: str
    kubeconfig: Path
    state: str
    caller: ClientSettings = attrs.field(factory=lambda: load({}))

    @property
    def text(self) -> str:
        """Return the banner, which ends with the commands if there are roles."""
        facts = {"kubeconfig": str(self.kubeconfig), "state": self.state}
        if not self.api:
            return "".join(_table(facts))
        functions = self.settings.nats.url or NO_FUNCTIONS
        addresses = {
            "api": self.api,
            "console": f"{self.api}/console/",
            "swagger": f"{self.api}/swagger/index.html",
            "gateway": self.settings.gateway.publicURL,
            "ssh": ssh_words(self.settings.gateway),
            "functions": functions,
            "units": units_words(self.settings.dev),
        }
        commands = "".join(f"  {line}\n" for line in (*self._exports(), *self._commands()))
        return "".join(_table(addresses | facts)) + "try, in another terminal\n" + commands

    def _exports(self) -> Iterator[str]:
        """Yield the settings that the commands need here."""
        if self.api != DEFAULT_SERVER:
            yield f"export {VARIABLES['server']}={self.api}"
        if self.settings.tls.certificateFile:
            path = Path(self.settings.tls.certificateFile).resolve()
            yield f"export {VARIABLES['ca_file']}={shlex.quote(str(path))}"
        if self.settings.auth.mode is AuthMode.TOKEN:
            yield self._token()

    def _token(self) -> str:
        """Return how the commands get a token: the file of tokens holds only their digests."""
        for name, value in (
            ("token_file", self.caller.token_file),
            ("token", self.caller.token),
        ):
            if value:
                return f"export {VARIABLES[name]}={shlex.quote(value)}"
        file = self.settings.auth.tokenFile
        return f"export {VARIABLES['token']}=…   # the token of an operator in {file}"

    def _commands(self) -> Iterator[str]:
        run, spec = own_command(), "--spec demo.1"
        pool = f"{spec} --memory 16Gi --gpu 1 --replicas 2"
        yield f"{run} pools create --name demo {pool} --wait"
        serve = "--port 8080 --wait -- python -m http.server 8080 --bind 127.0.0.1"
        yield f"{run} units create --name demo {spec} --image python:3.12 {serve}"
        yield f"{run} units open demo 8080"
        if self.settings.nats.url:
            echo = "-- python -m gpuruntime.framework.echo"
            yield f"{run} units create --name echo --function echo {spec} --image python {echo}"
            yield f"""{run} invoke echo --data '{{"hello": "world"}}' --sync"""
        yield f"{run} units list"


def ssh_words(settings: GatewaySettings) -> str:
    if not settings.exec:
        return "off: gateway.exec is off"
    return settings.ssh.host if settings.ssh.hostKeyFile else NO_SSH


def units_words(settings: DevSettings) -> str:
    """Return which units run, and as whom: nothing confines their processes."""
    if settings.run is DevRun.SIMULATED or not settings.programs:
        return "simulated, as dev.run and dev.programs say"
    listed = ", ".join(settings.programs)
    return (
        f"commands that begin with {listed} run as your own processes, without isolation; "
        "dev.run: simulated turns it off"
    )


def own_command(argument: str = sys.argv[0]) -> str:
    """Return the words that run this program in another terminal in the same folder."""
    path = Path(argument)
    if path.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m {PROGRAM}"
    found = shutil.which(PROGRAM)
    if path.name != PROGRAM or (found and Path(found).resolve() == path.resolve()):
        return PROGRAM
    return shlex.quote(argument)


def _table(facts: Mapping[str, str]) -> Iterator[str]:
    return (f"{name:<12} {value}\n" for name, value in facts.items())
