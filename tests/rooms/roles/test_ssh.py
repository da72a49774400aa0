"""SSH of the gateway role: host keys that are refused at the start, and its options."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncssh
import attrs
import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.roles.ssh import demand_ssh, ssh_options_of, write_host_key_once
from gpuruntime.roles.ssh_host_key import public_host_keys
from gpuruntime.settings.gateway import GatewaySshSettings, SftpMode
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address
from gpuruntime.strict.structure import ManyFieldsError


def settings_with(
    path: Path, *, has_exec: bool = True, sftp: SftpMode = SftpMode.AUTO
) -> Settings:
    given = Settings()
    ssh = GatewaySshSettings(hostKeyFile=str(path), sftp=sftp)
    return attrs.evolve(given, gateway=attrs.evolve(given.gateway, ssh=ssh, exec=has_exec))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "ssh_host_key"
    write_host_key_once(path)
    return path


def test_a_host_key_is_written_once_and_its_public_half_is_for_tickets(key: Path) -> None:
    demand_ssh(settings_with(key))
    (line,) = public_host_keys(str(key))
    assert line == asyncssh.read_private_key(key).export_public_key().decode().strip()
    assert key.stat().st_mode & 0o777 == 0o600
    write_host_key_once(key)
    assert public_host_keys(str(key)) == (line,)


def test_without_a_host_key_there_is_no_ssh() -> None:
    demand_ssh(Settings())
    assert public_host_keys("") == ()


def write_encrypted(key: Path) -> None:
    made = asyncssh.generate_private_key("ssh-ed25519")
    key.write_bytes(made.export_private_key("pkcs8-pem", passphrase="secret"))


def write_short(key: Path) -> None:
    made = asyncssh.generate_private_key("ssh-rsa", key_size=1024)
    key.write_bytes(made.export_private_key())


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (Path.unlink, "No such file"),
    "no key": (lambda key: key.write_text("secret"), "is no private key without"),
    "an encrypted key": (write_encrypted, "is no private key without"),
    "a short key": (write_short, "1024 bits"),
    "no public half": (lambda key: key.with_name("ssh_host_key.pub").unlink(), "No such file"),
    "an empty public half": (
        lambda key: key.with_name("ssh_host_key.pub").write_text(""),
        "is empty",
    ),
    "another public half": (
        lambda key: key.with_name("ssh_host_key.pub").write_bytes(
            asyncssh.generate_private_key("ssh-ed25519").export_public_key()
        ),
        "is of another key",
    ),
    "a private public half": (
        lambda key: key.with_name("ssh_host_key.pub").write_bytes(key.read_bytes()),
        "SSH public key",
    ),
}


@pytest.mark.parametrize(("spoil", "words"), FAULTS.values(), ids=FAULTS)
def test_a_gateway_with_a_faulty_host_key_does_not_start(
    key: Path, spoil: Callable[[Path], object], words: str
) -> None:
    spoil(key)
    with pytest.raises(ConfigurationError, match=words) as caught:
        demand_ssh(settings_with(key))
    assert "PRIVATE KEY" not in str(caught.value)


def test_ssh_needs_commands_in_units(key: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gateway\.exec is false"):
        demand_ssh(settings_with(key, has_exec=False))


def test_a_listener_needs_a_host_key() -> None:
    with pytest.raises(ManyFieldsError, match="needs a host key"):
        GatewaySshSettings(listen=Address("", 2222))


@pytest.mark.parametrize(
    ("mode", "has_files", "prefers"),
    [(SftpMode.AUTO, True, True), (SftpMode.SHELL, True, False), (SftpMode.OFF, False, False)],
)
def test_the_mode_decides_which_files_are_served(
    tmp_path: Path, mode: SftpMode, has_files: bool, prefers: bool
) -> None:
    options = ssh_options_of(settings_with(tmp_path, sftp=mode))
    assert (options.has_files, options.prefers_sftp_server) == (has_files, prefers)


WITHOUT = """
import sys
from importlib.machinery import PathFinder
class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] == "asyncssh" else super().find_spec(name, path, target)
sys.meta_path[:] = [Hidden if each is PathFinder else each for each in sys.meta_path]
import attrs
from gpuruntime.roles import gateway
from gpuruntime.roles.ssh import demand_ssh
from gpuruntime.settings.gateway import GatewaySshSettings
from gpuruntime.settings.schema import Settings
given = Settings()
ssh = GatewaySshSettings(hostKeyFile="/etc/key")
try:
    demand_ssh(attrs.evolve(given, gateway=attrs.evolve(given.gateway, ssh=ssh)))
except Exception as error:
    print(error)
"""


def test_without_the_extra_the_role_runs_and_refuses_only_ssh() -> None:
    ended = subprocess.run(
        (sys.executable, "-c", WITHOUT), capture_output=True, text=True, check=True
    )
    assert "SSH needs asyncssh: install gpuruntime[ssh]" in ended.stdout
