"""A worker process with only the files of its Secret, on a broker in operator mode."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import yaml

from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names
from gpuruntime.bus.provisioning import declare_consumer, declare_stream
from gpuruntime.bus.records import Records
from gpuruntime.bus.streams import consumer_declaration, declarations
from gpuruntime.bus.user_jwts import Mint, SigningOptions
from gpuruntime.framework.server import serving
from gpuruntime.models.kinds.functions import Framework, Serverless, WorkerOf
from gpuruntime.models.kinds.invocations import State
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.functions.worker_secret_plan import secret_data
from gpuruntime.reconcilers.options import SidecarOptions
from gpuruntime.reconcilers.unit.sidecar import SETTINGS_FOLDER, SOCKET_FOLDER
from tests.options import configured
from tests.rooms.bus.broker import FUNCTION, SMALL, Bus, broker, connection
from tests.rooms.bus.identities import Identity, operated
from tests.rooms.roles.programs import Programs
from tests.rooms.worker.invocations import accept
from tests.rooms.worker.workers import Ledger, ended

SOCKET = Framework(socketPath="/tmp/f/framework.sock")
UNIT = GPUUnit(
    metadata=ObjectMeta(name="echo-w-1", namespace="runtime-instance", uid="1"),
    spec=GPUUnitSpec(
        specName="g",
        serverless=Serverless(
            requestID=FUNCTION, framework=SOCKET, workerOf=WorkerOf(name="echo", uid="2")
        ),
    ),
)


def mounted(folder: Path, url: str, account: Identity) -> dict[str, Any]:
    """Write the Secret's files as in the Pod, with other paths for them and the socket."""
    seed = folder / "account.nk"
    seed.write_text(account.seed)
    names = Names()
    mint = Mint(
        configured(SigningOptions, seed_file=str(seed)),
        names,
        now=lambda: datetime.now(UTC),
        entropy=Random(1).randbytes,
    )
    files = {"credentialsFile": mint.worker(FUNCTION, UNIT.metadata.name).text}
    options = configured(SidecarOptions, broker_url=url)
    for name, data in secret_data(UNIT, options, files).items():
        text = base64.b64decode(data).decode()
        text = text.replace(SETTINGS_FOLDER, str(folder))
        (folder / name).write_text(text.replace(f"{SOCKET_FOLDER}/", f"{folder}/"))
    settings: dict[str, Any] = yaml.safe_load((folder / "worker.yaml").read_text())
    return settings


async def test_a_worker_needs_no_more_than_its_secret(program: Programs, tmp_path: Path) -> None:
    account, names = Identity("account"), Names()
    owner = tmp_path / "owner.creds"
    owner.write_text(account.credentials_of(Identity("user")))
    with broker(*operated(account)) as started:
        settings = mounted(tmp_path, started.url, account)
        where = Framework(socketPath=str(tmp_path / "framework.sock"))
        async with connection(started.url, credentials_file=str(owner)) as connected:
            jetstream = JetStream(connected)
            for declaration in declarations(names, SMALL):
                await declare_stream(jetstream, declaration)
            wanted = consumer_declaration(names, FUNCTION, ack_wait_seconds=30)
            await declare_consumer(jetstream, names.invocations, wanted)
            records = Records(jetstream, names, rng=Random(2))
            made = Bus(started.url, connected, jetstream, names, records)
            async with serving(Ledger().handle, where):
                del settings["operations"]
                process = program.start("worker", **settings)
                await accept(made, "one", payload={"n": 1})
                record = await ended(made, "one")
            assert process.stop() == 0
    assert (record.state, record.workerName) == (State.SUCCEEDED, "echo-w-1")
