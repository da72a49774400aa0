"""The banner of dev names addresses, and commands that work as they are."""

from pathlib import Path

import attrs
import pytest

from gpuruntime.roles.dev.banner import NO_FUNCTIONS, NO_SSH, Banner, own_command
from gpuruntime.settings.access import AuthMode, AuthSettings, TlsSettings
from gpuruntime.settings.client import ClientSettings
from gpuruntime.settings.dev import DevRun, DevSettings
from gpuruntime.settings.gateway import GatewaySettings, GatewaySshSettings
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.serverless import NatsSettings

NATS = NatsSettings(url="nats://127.0.0.1:4222")
TOKENS = AuthSettings(mode=AuthMode.TOKEN, tokenFile="tokens.yaml")
DEFAULTS, NOBODY = Settings(), ClientSettings()
USUAL = "http://127.0.0.1:8080"


def text_of(
    settings: Settings = DEFAULTS, *, api: str = USUAL, caller: ClientSettings = NOBODY
) -> str:
    kubeconfig = Path("/here/kubeconfig")
    banner = Banner(settings=settings, api=api, kubeconfig=kubeconfig, state="kept", caller=caller)
    return banner.text


def test_the_banner_names_what_is_served() -> None:
    lines = text_of().splitlines()
    assert f"api          {USUAL}" in lines
    assert f"console      {USUAL}/console/" in lines
    assert "kubeconfig   /here/kubeconfig" in lines
    assert "state        kept" in lines
    assert f"functions    {NO_FUNCTIONS}" in lines


def test_the_cluster_alone_suggests_no_command() -> None:
    assert text_of(api="") == "kubeconfig   /here/kubeconfig\nstate        kept\n"


@pytest.mark.parametrize(
    ("dev", "words"),
    [
        pytest.param(
            DevSettings(programs=("python", "sh")),
            "commands that begin with python, sh run as your own processes, without isolation; "
            "dev.run: simulated turns it off",
            id="they run",
        ),
        pytest.param(
            DevSettings(run=DevRun.SIMULATED),
            "simulated, as dev.run and dev.programs say",
            id="they are simulated",
        ),
        pytest.param(
            DevSettings(programs=()), "simulated, as dev.run and dev.programs say", id="no program"
        ),
    ],
)
def test_the_banner_says_as_whom_units_run(dev: DevSettings, words: str) -> None:
    assert f"units        {words}" in text_of(attrs.evolve(DEFAULTS, dev=dev)).splitlines()


def test_functions_are_suggested_if_there_is_a_broker() -> None:
    assert "invoke echo" not in text_of()
    assert "invoke echo" in text_of(attrs.evolve(DEFAULTS, nats=NATS))


@pytest.mark.parametrize(
    ("settings", "api", "caller", "export"),
    [
        pytest.param(DEFAULTS, USUAL, NOBODY, "", id="nothing at the usual address"),
        pytest.param(
            Settings(),
            "http://127.0.0.1:8082",
            ClientSettings(),
            "export GPURUNTIME_SERVER=http://127.0.0.1:8082",
            id="the address",
        ),
        pytest.param(
            attrs.evolve(DEFAULTS, auth=TOKENS),
            USUAL,
            ClientSettings(token="a b"),
            "export GPURUNTIME_TOKEN='a b'",
            id="the token of the environment",
        ),
        pytest.param(
            attrs.evolve(DEFAULTS, auth=TOKENS),
            USUAL,
            ClientSettings(token="a", token_file="/my/token"),
            "export GPURUNTIME_TOKEN_FILE=/my/token",
            id="the file of a token",
        ),
        pytest.param(
            attrs.evolve(DEFAULTS, auth=TOKENS),
            USUAL,
            ClientSettings(),
            "export GPURUNTIME_TOKEN=…   # the token of an operator in tokens.yaml",
            id="where a token is, if the environment has none",
        ),
        pytest.param(
            attrs.evolve(
                Settings(), tls=TlsSettings(certificateFile="/my/tls.crt", keyFile="/my/tls.key")
            ),
            "https://127.0.0.1:8080",
            ClientSettings(),
            "export GPURUNTIME_CA_FILE=/my/tls.crt",
            id="the authority of the certificate",
        ),
    ],
)
def test_the_commands_begin_with_the_settings_that_they_need(
    settings: Settings, api: str, caller: ClientSettings, export: str
) -> None:
    found = [line.strip() for line in text_of(settings, api=api, caller=caller).splitlines()]
    exports = [line for line in found if line.startswith("export ")]
    assert exports == [] if not export else export in exports


def test_a_program_on_the_path_is_named_alone_and_another_by_its_path() -> None:
    assert own_command("/nowhere/gpuruntime") == "/nowhere/gpuruntime"
    assert own_command("/x/gpuruntime/__main__.py").endswith(" -m gpuruntime")
    assert own_command("pytest") == "gpuruntime"


@pytest.mark.parametrize(
    ("gateway", "words"),
    [
        pytest.param(
            GatewaySettings(ssh=GatewaySshSettings(host="localhost:2222", hostKeyFile="key")),
            "localhost:2222",
            id="it is served",
        ),
        pytest.param(GatewaySettings(), NO_SSH, id="asyncssh is missing"),
        pytest.param(GatewaySettings(exec=False), "off: gateway.exec is off", id="without exec"),
    ],
)
def test_the_banner_says_where_ssh_is_served(gateway: GatewaySettings, words: str) -> None:
    assert f"ssh          {words}" in text_of(attrs.evolve(DEFAULTS, gateway=gateway)).splitlines()
