"""The broker and database of `examples/broker`, as docs/broker.md makes and uses them."""

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import urlopen

import attrs
import pytest
import yaml

from gpuruntime.bus.connection import Connection
from gpuruntime.bus.errors import BusError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names
from gpuruntime.bus.provisioning import declare_stream
from gpuruntime.bus.streams import StreamOptions, declarations
from gpuruntime.bus.user_jwts import Mint, SigningOptions
from gpuruntime.models.kinds import labels
from gpuruntime.serverless.results.postgres import PostgresOptions, postgres_results
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import NatsPeerSettings
from tests.dry_runs import pod_from
from tests.eventually import eventually_blocking
from tests.options import configured
from tests.policies import Endpoint, Network
from tests.proofs.docs.pages import ROOT, page_of
from tests.proofs.real_cluster.controlplane import ControlPlaneError
from tests.proofs.real_cluster.fixtures import started as started_plane
from tests.proofs.real_cluster.processes import Keeper
from tests.proofs.real_cluster.product import NOWHERE
from tests.rooms.bus.broker import FUNCTION, connection, program
from tests.rooms.manifests.overlays import MANIFESTS, documents
from tests.rooms.serverless.results.database import asking, database
from tests.rooms.serverless.results.results import NOW, ended, parts

EXAMPLE = ROOT / "examples" / "broker"
PAGE = page_of("docs/broker.md")
INSTALL = page_of("docs/install.md")
NAMES = Names("runtime")
# What docs/serverless.md allows.
GREATEST_PAYLOAD = 1024 * 1024
KUBECTL = shutil.which("kubectl")
MADE = ["operator.nk", "account.nk", "broker.creds", "accounts.conf", "password", "url"]


def keys_block() -> str:
    """Return the page's commands that make the keys, for this Python and this checkout."""
    [text] = [each.text for each in PAGE.blocks if "keys.py" in each.text]
    return text.replace("examples/", f"{EXAMPLE.parent}/").replace(
        ".venv/bin/python", sys.executable
    )


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-ec", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broker")
    done = run(folder, keys_block())
    assert done.returncode == 0, done.stderr
    return folder / "broker"


@attrs.frozen
class Server:
    """The example's server takes connections at `url` and answers the kubelet at `health`."""

    url: str
    health: str


@pytest.fixture(scope="module")
def started(copy: Path) -> Iterator[Server]:
    """Yield a server with the example's configuration, except for its addresses and its disk."""
    text = (copy / "nats.conf").read_text()
    for shown, here in (
        ("0.0.0.0:4222", "127.0.0.1:-1"),
        ("0.0.0.0:8222", "127.0.0.1:-1"),
        ('"/data"', f'"{copy}/data"'),
    ):
        assert shown in text
        text = text.replace(shown, here)
    file, log = copy / "here.conf", copy / "log"
    file.write_text(text)
    keeper = Keeper(copy, NOWHERE)
    try:
        keeper.start("nats", [program(), "-c", str(file), "--ports_file_dir", str(copy)], log)
        eventually_blocking(lambda: ports_in(copy), explain=log.read_text)
        ports = ports_in(copy)
        yield Server(ports["nats"][0], ports["monitoring"][0])
    finally:
        keeper.close()


def ports_in(folder: Path) -> dict[str, list[str]]:
    """Return what the server listens on, or nothing before it does."""
    try:
        [file] = folder.glob("*.ports")
        found: dict[str, list[str]] = json.loads(file.read_text())
    except ValueError:
        return {}
    return found


def objects() -> list[dict[str, Any]]:
    files = yaml.safe_load((EXAMPLE / "kustomization.yaml").read_text())["resources"]
    return [one for file in files for one in yaml.safe_load_all((EXAMPLE / file).read_text())]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects() if one["kind"] == kind}


def pod_of(name: str) -> dict[str, Any]:
    template: dict[str, Any] = of_kind("StatefulSet")[name]["spec"]["template"]
    return template


def test_the_script_writes_the_files_of_the_page_for_their_owner_alone(copy: Path) -> None:
    assert [row[0].strip("`") for row in PAGE.table("file", "what it is")] == MADE
    for name in MADE:
        assert stat.S_IMODE((copy / name).stat().st_mode) == 0o600, name
    assert (copy / "operator.nk").read_text().startswith("SO")
    assert (copy / "account.nk").read_text().startswith("SA")
    public = (copy / "accounts.conf").read_text()
    assert not any((copy / name).read_text() in public for name in ("operator.nk", "account.nk"))


def test_the_script_keeps_the_files_of_an_earlier_run(copy: Path) -> None:
    before = {name: (copy / name).read_text() for name in MADE}
    again = run(copy.parent, f"{sys.executable} broker/keys.py broker")
    assert again.returncode == 1
    assert "account.nk" in again.stderr
    assert {name: (copy / name).read_text() for name in MADE} == before


@asynccontextmanager
async def role(started: Server, copy: Path) -> AsyncIterator[Connection]:
    """Log in as the roles do, and declare all streams."""
    async with connection(started.url, credentials_file=str(copy / "broker.creds")) as made:
        for declaration in declarations(NAMES, configured(StreamOptions)):
            await declare_stream(JetStream(made), declaration)
        yield made


async def test_the_roles_store_an_invocation_of_the_greatest_payload(
    started: Server, copy: Path
) -> None:
    async with role(started, copy) as made:
        body = json.dumps({"payload": "x" * GREATEST_PAYLOAD}).encode()
        await JetStream(made).publish(NAMES.invoke("echo"), body, message_id="greatest")
        info: Any = await JetStream(made).call(f"STREAM.INFO.{NAMES.invocations}")
        assert info["state"]["bytes"] > GREATEST_PAYLOAD
        assert info["config"]["max_bytes"] == configured(StreamOptions).most_queued_bytes


async def test_the_account_key_signs_a_login_that_the_broker_accepts(
    started: Server, copy: Path
) -> None:
    options = configured(SigningOptions, seed_file=str(copy / "account.nk"))
    mint = Mint(options, NAMES, now=lambda: datetime.now(UTC), entropy=Random(1).randbytes)
    file = copy / "worker.creds"
    file.write_text(mint.worker("echo", "echo-w-1").text)
    own, other = NAMES.state("echo", "1"), NAMES.state("other", "1")
    login = connection(started.url, credentials_file=str(file), inbox_prefix=NAMES.inbox("echo"))
    async with role(started, copy), login as worker:
        await JetStream(worker).publish(own, b"{}", message_id="own")
        assert await JetStream(worker).last(NAMES.states, own) is not None
        with pytest.raises(BusError):
            await JetStream(worker).last(NAMES.states, other)


@pytest.mark.parametrize("which", ["none", "another operator's"])
async def test_the_broker_refuses_any_other_login(
    started: Server, tmp_path: Path, which: str
) -> None:
    options: dict[str, Any] = {}
    if which != "none":
        assert run(tmp_path, keys_block()).returncode == 0
        options = {"credentials_file": str(tmp_path / "broker" / "broker.creds")}
    async with connection(started.url, **options) as refused:
        assert "uthorization" in refused.problem


def test_the_probes_ask_for_what_the_server_answers(started: Server) -> None:
    [container] = pod_of("nats")["spec"]["containers"]
    for probe in ("readinessProbe", "livenessProbe"):
        path = container[probe]["httpGet"]["path"]
        with urlopen(f"{started.health}{path}", timeout=5) as answer:
            assert json.load(answer) == {"status": "ok"}


def test_the_addresses_are_those_of_the_services(copy: Path) -> None:
    for text in (PAGE.text, INSTALL.text):
        assert "--from-literal=url=nats://nats.nats.svc:4222" in text
    database = urlsplit((copy / "url").read_text())
    assert (database.hostname, database.port) == ("postgresql.postgresql.svc", 5432)
    assert database.password == (copy / "password").read_text()
    [container] = pod_of("postgresql")["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["POSTGRES_USER"] == database.username
    assert f"/{variables['POSTGRES_DB']}" == database.path
    for name, port in (("nats", 4222), ("postgresql", 5432)):
        service = of_kind("Service")[name]
        assert service["metadata"]["namespace"] == name
        assert [each["port"] for each in service["spec"]["ports"]] == [port]
        pod_labels = pod_of(name)["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= pod_labels.items()


def peer_of_full() -> NatsPeerSettings:
    path = str(MANIFESTS / "overlays" / "full" / "manager.yaml")
    return load(path, flags={}, environment={}).network.nats


def policy_of_workers() -> dict[str, Any]:
    """Return what the manager's policies add for workers: the way to the configured broker."""
    peer = peer_of_full()
    to = {
        "namespaceSelector": {"matchLabels": dict(peer.namespaceLabels)},
        "podSelector": {"matchLabels": dict(peer.podLabels)},
    }
    return {
        "metadata": {"name": "workers", "namespace": "runtime-instance"},
        "spec": {
            "podSelector": {"matchLabels": {labels.UNIT: "echo-w-1"}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [to], "ports": [{"port": peer.port}]}],
        },
    }


def test_workers_of_full_find_the_broker_under_its_labels() -> None:
    peer = peer_of_full()
    assert peer.podLabels.items() <= pod_of("nats")["metadata"]["labels"].items()
    assert peer.namespaceLabels == {"kubernetes.io/metadata.name": "nats"}


def test_only_pods_that_need_a_server_reach_it() -> None:
    spaces = ("nats", "postgresql", "runtime-system", "runtime-instance", "elsewhere")
    ours = (*documents("NetworkPolicy"), policy_of_workers())
    policies = (*ours, *of_kind("NetworkPolicy").values())
    network = Network(
        namespaces={name: {"kubernetes.io/metadata.name": name} for name in spaces},
        policies=policies,
    )
    roles = ("manager", "api", "activator", "results")
    sources = {
        **{
            name: Endpoint(
                namespace="runtime-system", labels={labels.APP_NAME: f"gpuruntime-{name}"}
            )
            for name in roles
        },
        "worker": Endpoint(namespace="runtime-instance", labels={labels.UNIT: "echo-w-1"}),
        "stranger": Endpoint(namespace="elsewhere"),
    }
    targets = {
        name: (Endpoint(namespace=name, labels=pod_of(name)["metadata"]["labels"]), port)
        for name, port in (("nats", 4222), ("postgresql", 5432))
    }
    reached = {
        (source, target)
        for source, target in product(sources, targets)
        if network.permits(sources[source], *targets[target])
    }
    assert reached == {
        *((each, "nats") for each in ("api", "activator", "results", "worker")),
        *((each, "postgresql") for each in ("api", "results")),
    }


@pytest.mark.parametrize("name", ["nats", "postgresql"])
def test_the_pods_are_as_their_namespaces_demand(name: str) -> None:
    namespace = of_kind("Namespace")[name]["metadata"]["labels"]
    assert namespace == {"pod-security.kubernetes.io/enforce": "restricted"}
    spec = pod_of(name)["spec"]
    [container] = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {each["name"] for each in container["volumeMounts"]}
    claims = of_kind("StatefulSet")[name]["spec"]["volumeClaimTemplates"]
    assert mounted == {each["name"] for each in (*spec["volumes"], *_metadata(claims))}


def _metadata(claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each["metadata"] for each in claims]


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed here")
def test_kustomize_puts_the_files_into_the_secrets_that_the_pods_mount(copy: Path) -> None:
    assert KUBECTL is not None
    done = subprocess.run(
        [KUBECTL, "kustomize", str(copy)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    built = [one for one in yaml.safe_load_all(done.stdout) if one]
    secrets = {one["metadata"]["name"]: set(one["data"]) for one in built if "data" in one}
    mounted = {
        volume["secret"]["secretName"]: one["metadata"]["name"]
        for one in built
        if one["kind"] == "StatefulSet"
        for volume in one["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    }
    assert {mounted[name]: keys for name, keys in secrets.items()} == {
        "nats": {"nats.conf", "accounts.conf"},
        "postgresql": {"password"},
    }


@pytest.mark.serverless
async def test_results_are_stored_at_the_address_that_the_script_writes(copy: Path) -> None:
    with database() as started:
        password = (copy / "password").read_text()
        # As the image does with POSTGRES_USER, POSTGRES_DB and POSTGRES_PASSWORD_FILE.
        async with asking(started.url, "public") as owner:
            await owner.execute(f"ALTER ROLE gpuruntime PASSWORD '{password}'")
            await owner.execute("CREATE DATABASE gpuruntime")
        address = (copy / "url").read_text()
        here = address.replace("postgresql.postgresql.svc:5432/", "/")
        assert here != address
        file = copy / "url-here"
        file.write_text(f"{here}?host={started.folder}")
        async with postgres_results(configured(PostgresOptions, url_file=str(file))) as store:
            await store.prepare()
            assert await store.keep(ended("one"), parts(), written_at=NOW)
            assert await store.read(FUNCTION, "one") == ended("one")


@pytest.mark.cluster
def test_a_real_server_accepts_the_objects_and_admits_their_pods(
    copy: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    with contextmanager(started_plane)(tmp_path_factory, pytestconfig) as plane:
        plane.kubectl("apply", "-k", str(copy))
        for name, body in of_kind("StatefulSet").items():
            pod = cast("dict[str, Any]", pod_from(body))
            claimed = [{"name": "data", "emptyDir": {}}]
            pod["spec"]["volumes"] = [*pod["spec"]["volumes"], *claimed]
            create = ("-n", name, "create", "--dry-run=server", "-f", "-")
            plane.kubectl(*create, stdin=json.dumps(pod))
            pod["spec"]["securityContext"]["runAsNonRoot"] = False
            with pytest.raises(ControlPlaneError, match="violates PodSecurity"):
                plane.kubectl(*create, stdin=json.dumps(pod))
