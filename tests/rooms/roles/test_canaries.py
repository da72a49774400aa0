"""Recognisable secrets are planted wherever one is given, and all output is searched for them.

Everything fails that can. Broker, database and cluster refuse each role or are away, and secrets
are written into the configuration where they do not belong.
"""

import asyncio
import base64
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from operator import not_
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, EVENTS
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.roles.broker_options import connection_options_of
from gpuruntime.roles.certificates import Certificate
from gpuruntime.roles.token_file import read_tokens
from gpuruntime.settings.access import TlsSettings
from gpuruntime.settings.load import load
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.serverless import NatsSettings
from gpuruntime.telemetry.metrics import Registry
from tests.eventually import eventually, eventually_blocking
from tests.proofs.real_cluster.product import Process
from tests.rooms.api.service import INVOCATIONS, SECRETS, STORAGES, UNITS, service
from tests.rooms.bus.broker import SMALL, Broker, broker
from tests.rooms.kube.servers import Authority
from tests.rooms.operations.cluster import INSTANCE, SYSTEM, Cluster
from tests.rooms.reconcilers.test_reporting import crashing
from tests.rooms.reconcilers.world import World, becomes, living, managing, phase_of, quiet
from tests.rooms.reconcilers.world import until as comes
from tests.rooms.roles.programs import Programs
from tests.rooms.serverless.calling.ingress import queue_of, wall_clock

CANARY = "canary4711"
NOWHERE = "127.0.0.1:1"


def planted(folder: Path, name: str) -> str:
    """Write a file with its own secret. Return its path."""
    path = folder / name
    path.write_text(f"{CANARY}-{name}")
    return str(path)


def kubeconfig(folder: Path) -> str:
    path = folder / "kubeconfig"
    named = {"name": "here"}
    context = {"cluster": "here", "user": "here"}
    document = {
        "current-context": "here",
        "clusters": [{**named, "cluster": {"server": f"http://{NOWHERE}"}}],
        "users": [{**named, "user": {"token": f"{CANARY}-bearer"}}],
        "contexts": [{**named, "context": context}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def answer_text(url: str, token: str, body: bytes | None = None) -> str:
    """Return headers and body of the answer, whatever its status."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return f"{answer.headers}{answer.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode()}"


def assert_silent(process: Process, *further: str) -> None:
    """Assert that log, operations listener and the given answers contain no secret."""
    answers = [
        answer_text(f"{process.operations}/{path}", "none") for path in ("metrics", "readyz")
    ]
    output = [process.log.read_text(), *answers, *further]
    assert all(output)
    assert CANARY not in "\n".join(output)


@pytest.fixture
def refusing() -> AbstractContextManager[Any]:
    """A broker that rejects every login of these tests."""
    return broker('authorization { user: "somebody", password: "else" }')


def test_roles_refused_on_every_side_disclose_no_secret(
    program: Programs, refusing: AbstractContextManager[Any]
) -> None:
    folder = program.folder
    cluster = {"kubeconfig": kubeconfig(folder)}
    with refusing as started:
        address = started.url.removeprefix("nats://")
        api = program.start(
            "api",
            kubernetes=cluster,
            auth={"mode": "kubernetes"},
            nats={"url": f"nats://ali:{CANARY}-url@{address}"},
        )
        results = program.start(
            "results",
            nats={"url": started.url, "tokenFile": planted(folder, "broker-token")},
            results={
                "store": "postgres",
                "postgres": {"urlFile": str(database(folder))},
            },
        )
        activator = program.start(
            "activator",
            kubernetes=cluster,
            nats={"url": started.url, "credentialsFile": planted(folder, "creds")},
        )
        worker = program.start(
            "worker",
            nats={"url": started.url, "user": "a", "passwordFile": planted(folder, "password")},
            worker={"function": "echo", "name": "w", "framework": {"socketPath": "/nowhere"}},
        )
        manager = program.start(
            "manager",
            kubernetes=cluster,
            nats={"url": started.url, "nkeyFile": planted(folder, "nkey")},
            serverless={
                "image": "here",
                "signingKeyFile": planted(folder, "seed"),
                "account": "A" + "B" * 55,
            },
        )
        for role in (api, results, activator, worker):
            eventually_blocking(
                role.log.read_text, lambda text: "broker lost" in text, explain=role.tail
            )
        answers = [
            answer_text(f"{api.address}/api/v1/{path}", f"{CANARY}-caller", body)
            for path in ("health", "gpu-units", "operator/audit")
            for body in (None, b'{"a": 1}')
        ]
        assert_silent(api, *answers)
        for role in (results, activator, worker, manager):
            assert_silent(role)


def database(folder: Path) -> Path:
    path = folder / "database"
    path.write_text(f"postgresql://ali:{CANARY}-database@{NOWHERE}/postgres")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "nats: {password: canary4711}",
        "nats: {url: 'nats://a', passwordFile: {canary4711: 1}}",
        "nats: {url: 'nats://ali:canary4711@b:bad'}",
        "nats: {url: 'http://ali:canary4711@b'}",
        "nats: {tokenFile: [canary4711]}",
        "results: {postgres: {url: 'postgresql://ali:canary4711@b/c'}}",
        "results: {postgres: {url: 'postgresql://b/c?password=canary4711'}}",
        "results: {postgres: {url: 'mysql://ali:canary4711@b/c'}}",
        "results: {postgres: {password: canary4711}}",
        "auth: {tokens: [canary4711]}",
        "auth: {mode: token, token: canary4711}",
        "tls: {key: canary4711}",
        "serverless: {signingKey: canary4711}",
        "nats: !canary4711 a",
        "nats: *canary4711",
        'nats: {password: "canary4711',
    ],
)
def test_a_secret_in_the_wrong_place_is_rejected_and_not_repeated(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(str(path), flags={}, environment={})
    assert CANARY not in traceback_text(caught.value)


def traceback_text(error: BaseException | None) -> str:
    """Return all that a traceback would print."""
    output = ""
    while error is not None:
        output += f"{error} {error!r}\n"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return output


@pytest.mark.parametrize(
    "entry",
    [{"sha256": CANARY}, {"token": CANARY}, {"role": CANARY}],
    ids=["as digest", "as token", "as role"],
)
def test_a_plain_token_in_the_token_file_is_rejected_and_not_repeated(
    tmp_path: Path, entry: dict[str, str]
) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(yaml.safe_dump({"tokens": [{"name": "a", "role": "operator", **entry}]}))
    with pytest.raises(ConfigurationError) as caught:
        read_tokens(str(path))
    assert CANARY not in traceback_text(caught.value)


def test_an_invalid_key_is_rejected_and_not_repeated(tmp_path: Path) -> None:
    shown = Authority(tmp_path).issue("api", host="here")
    lines = shown.key.read_text().splitlines()
    shown.key.write_text("\n".join((lines[0], CANARY, *lines[2:])))
    with pytest.raises(ConfigurationError) as caught:
        Certificate(TlsSettings(certificateFile=str(shown.file), keyFile=str(shown.key)))
    assert CANARY not in traceback_text(caught.value)
    assert lines[2] not in traceback_text(caught.value)


def test_settings_and_options_are_printed_without_the_logins_in_their_urls() -> None:
    nats = NatsSettings(url=f"nats://ali:{CANARY}@a:4222,tls://{CANARY}@b")
    options = connection_options_of(nats, name="api")
    for shown in (nats, Settings(nats=nats), options):
        assert CANARY not in f"{shown!r} {shown}"
        assert "a:4222" in repr(shown)
    assert options.url == nats.url


TEMPLATE: dict[str, Any] = {
    "command": ["serve"],
    "args": [f"--password={CANARY}"],
    "envs": [{"name": "PASSWORD", "value": CANARY}],
    "ports": [{"name": "http", "port": 80}],
}


@pytest.mark.looptime
async def test_the_values_given_to_a_unit_appear_only_in_its_spec() -> None:
    """The unit goes through success, failure, a bad spec, a refused write and its deletion."""
    world, registry = World(), Registry()
    world.troubles["demo"] = crashing("no weights")
    fill = {"fromImage": "a", "command": ["sh"], "args": [CANARY]}
    with structlog.testing.capture_logs() as logs:
        async with living(world), managing(world), service(world, meter=registry) as api:
            world.add_pool(replicas=2, refill="Never")
            await comes(lambda: phase_of(world.pool()) == "Ready")
            await api.create("one", name="demo", template=TEMPLATE)
            await becomes(world, "demo", "Failed")
            del world.troubles["demo"]
            await becomes(world, "demo", "Ready")
            await api.call("POST", STORAGES, {"name": "s", "size": "1Gi", "prepare": fill})
            await quiet(world)
            world.add_unit("bad", memory="not-a-quantity", template=TEMPLATE)
            await becomes(world, "bad", "Failed")
            bad = {**TEMPLATE, "envs": [{"name": "GPU_COUNT", "value": CANARY}]}
            answers = [
                await api.call("PUT", f"{UNITS}/demo", {"template": bad}),
                await api.create("one", name="demo", template=bad),
                await api.create("two", name="demo", template=TEMPLATE),
                await api.call("GET", f"{UNITS}/demo/events"),
                await api.call("GET", "/api/v1/operator/audit"),
                await api.call("GET", "/api/v1/operator/inventory"),
                await api.call("GET", "/api/v1/health"),
            ]
            statuses = [
                each.get("status")
                for resource in (GPU_UNITS, GPU_STORAGES)
                for each in world.objects(resource, INSTANCE)
            ]
            await api.call("DELETE", f"{UNITS}/demo")
            await quiet(world)
    events = world.objects(EVENTS, INSTANCE)
    assert len(events) >= 3
    assert len(logs) > 10
    output = [*(each.bytes.decode() for each in answers), registry.text().decode()]
    assert CANARY not in "\n".join((repr(logs), repr(events), repr(statuses), *output))


STORED: dict[str, Any] = {"name": "hub", "data": {"token": CANARY}}
USING: dict[str, Any] = {
    "envs": [{"name": "TOKEN", "secret": {"name": "hub", "key": "token"}}],
    "files": [{"path": "/etc/token", "secret": {"name": "hub", "key": "token"}}],
}


@pytest.mark.looptime
async def test_the_values_of_a_secret_appear_nowhere_but_in_it() -> None:
    """The secret is named before it exists, stored, replaced, refused, and deleted in use."""
    world, registry = World(), Registry()
    coded = base64.b64encode(CANARY.encode()).decode()
    with structlog.testing.capture_logs() as logs:
        async with living(world), managing(world), service(world, meter=registry) as api:
            world.add_pool(replicas=2, refill="Never")
            await comes(lambda: phase_of(world.pool()) == "Ready")
            created = await api.create("one", name="demo", template=USING)
            first = await api.call("POST", SECRETS, STORED)
            await becomes(world, "demo", "Ready")
            answers = [
                created,
                first,
                await api.call("POST", SECRETS, STORED),
                await api.call("POST", SECRETS, {**STORED, "binaryData": {"token": coded}}),
                await api.call("POST", SECRETS, {**STORED, "type": CANARY}),
                await api.call("GET", SECRETS),
                await api.call("GET", f"{UNITS}/demo"),
                await api.call("DELETE", f"{SECRETS}/hub"),
                await api.call("PUT", f"{UNITS}/demo", {"image": "python:3.13"}),
            ]
            await quiet(world)
            answers += [
                await api.call("GET", f"{UNITS}/demo"),
                await api.call("GET", f"{UNITS}/demo/events"),
                await api.call("GET", "/api/v1/operator/audit"),
                await api.call("GET", "/api/v1/health"),
            ]
            kept = [
                world.objects(GPU_UNITS, INSTANCE),
                world.objects(PODS, INSTANCE),
                world.objects(DEPLOYMENTS, INSTANCE),
                world.objects(CONFIG_MAPS, SYSTEM),
                world.objects(EVENTS, INSTANCE),
            ]
    statuses = [each.status for each in answers]
    assert statuses == [201, 201, 200, 400, 400, 200, 200, 204, 200, 200, 200, 200, 200]
    assert all(kept)
    output = "\n".join(
        (*(each.bytes.decode() for each in answers), registry.text().decode(), repr(logs))
    )
    for canary in (CANARY, coded):
        assert canary not in output
        assert canary not in repr(kept)


async def test_the_payload_of_a_call_appears_nowhere(shared: Broker) -> None:
    """The call sees acceptance, replay, conflict, bad requests, a read and cancellation."""
    queue, registry = queue_of(shared.url, "canary", streams=SMALL), Registry()
    call = {"invocationID": "one", "serverlessRequestID": "echo", "payload": {"a": CANARY}}
    cluster = Cluster()
    cluster.add_stock(1)
    with structlog.testing.capture_logs() as logs:
        async with (
            service(cluster, queue=queue, now=wall_clock, meter=registry) as api,
            asyncio.TaskGroup() as tasks,
        ):
            running = tasks.create_task(queue.run())
            await eventually(lambda: queue.problem, not_)
            await api.create("f", name="echo", serverless={"requestID": "echo"})
            path = f"{INVOCATIONS}/one?serverlessRequestID=echo"
            answers = [
                await api.call("POST", INVOCATIONS, call),
                await api.call("POST", INVOCATIONS, call),
                await api.call("POST", INVOCATIONS, {**call, "payload": [CANARY, 1]}),
                await api.call("POST", INVOCATIONS, {**call, "mode": 1}),
                await api.call("POST", INVOCATIONS, {**call, "serverlessRequestID": "none"}),
                await api.call("GET", path),
                await api.call("DELETE", path),
                await api.call("GET", path),
            ]
            running.cancel()
    statuses = [each.status for each in answers]
    assert statuses == [202, 200, 409, 400, 404, 200, 204, 200]
    output = [*(each.bytes.decode() for each in answers), registry.text().decode(), repr(logs)]
    assert CANARY not in "\n".join(output)
