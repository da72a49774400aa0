"""The Secrets of a gateway, as docs/install.md makes them, are those that its Pods mount."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuruntime.roles.ssh import demand_ssh
from gpuruntime.roles.ssh_host_key import public_host_keys
from gpuruntime.roles.ticket_keys import keys_in
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from tests.proofs.docs.pages import page_of
from tests.rooms.manifests import test_gateway as component

PAGE = page_of("docs/install.md")
TOOLS = ("openssl", "ssh-keygen")
# It stores the files of each Secret in a folder, as the kubelet shows them to a Pod.
KUBECTL = """#!/bin/sh -e
for argument in "$@"; do
  case $argument in
    --from-file=*) cp "${argument#--from-file=}" "$STORE/$name/" ;;
    *) name=$argument; [ "$before" != generic ] || mkdir -p "$STORE/$name" ;;
  esac
  before=$argument
done
"""

pytestmark = pytest.mark.skipif(
    any(shutil.which(each) is None for each in TOOLS), reason="openssl or ssh-keygen is missing"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for each Secret, after the page's commands."""
    folder = tmp_path_factory.mktemp("secrets")
    for name in ("store", "programs", "work"):
        (folder / name).mkdir()
    (folder / "programs" / "kubectl").write_text(KUBECTL)
    (folder / "programs" / "kubectl").chmod(0o755)
    path = os.pathsep.join((str(folder / "programs"), os.environ["PATH"]))
    for text in (each.text for each in PAGE.blocks if "from-file=" in each.text):
        if "gpuruntime-tickets" in text or "gpuruntime-ssh" in text:
            subprocess.run(
                ["bash", "-ec", text],
                cwd=folder / "work",
                env={**os.environ, "PATH": path, "STORE": str(folder / "store")},
                check=True,
            )
    left = {each.name for each in (folder / "work").iterdir()}
    assert left <= {"ssh_host_key.pub"}, "no secret stays behind"
    return folder / "store"


def mounted(store: Path, folder: Path, role: str) -> Path:
    """Return a folder with the files that the role's Pods have."""
    spec = component.template()["spec"] if role == "gateway" else component.patch(role)
    for secret, files in component.files_of(spec).items():
        for name in files or ():
            shutil.copy(store / secret / name, folder / name)
    return folder


def with_host_key(folder: Path) -> Settings:
    """Return the page's configuration of SSH, with the mounted files here."""
    [text] = [each.text for each in PAGE.blocks if "hostKeyFile" in each.text]
    path = folder / "ssh.yaml"
    path.write_text(text.replace(str(component.SECRETS), str(folder)))
    return load(str(path), flags={}, environment={"GPURUNTIME_GATEWAY_URL": component.ADDRESS})


def test_each_secret_has_exactly_the_files_that_are_mounted(store: Path) -> None:
    made = {each.name: sorted(file.name for file in each.iterdir()) for each in store.iterdir()}
    wanted = component.files_of(component.template()["spec"])
    assert made == {name: files for name, files in wanted.items() if files}


def test_the_keys_of_tickets_are_valid(store: Path, tmp_path: Path) -> None:
    folder = mounted(store, tmp_path, "api")
    [key] = keys_in((folder / "tickets.yaml").read_bytes(), "tickets.yaml").keys
    assert key.until is None


def test_the_gateway_accepts_the_host_key_and_listens_at_the_port_of_its_container(
    store: Path, tmp_path: Path
) -> None:
    settings = with_host_key(mounted(store, tmp_path, "gateway"))
    demand_ssh(settings)
    ports = {each["name"]: each["containerPort"] for each in component.container()["ports"]}
    assert settings.gateway.ssh.listen is not None
    assert settings.gateway.ssh.listen.port == ports["ssh"]


def test_the_api_names_the_public_half_without_the_private_one(
    store: Path, tmp_path: Path
) -> None:
    folder = mounted(store, tmp_path, "api")
    settings = with_host_key(folder)
    assert not Path(settings.gateway.ssh.hostKeyFile).exists()
    [key] = public_host_keys(settings.gateway.ssh.hostKeyFile)
    assert key.startswith("ssh-ed25519 ")


def test_the_host_key_is_optional() -> None:
    settings = component.configured()
    assert not settings.gateway.ssh.hostKeyFile
    demand_ssh(settings)
