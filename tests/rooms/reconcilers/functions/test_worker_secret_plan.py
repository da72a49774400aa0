"""Contents of a worker's Secret, and the time of its next login."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.bus.user_jwts import UserCredentials
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.functions import Framework, Serverless, WorkerOf
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.secrets import Secret
from gpuruntime.reconcilers.functions.worker_secret_plan import (
    Validity,
    kept_credentials,
    patch_of_secret,
    renewal_seconds,
    secret_body,
    secret_data,
    worker_settings,
)
from gpuruntime.reconcilers.options import SidecarOptions
from gpuruntime.roles.worker import worker_options_of
from gpuruntime.settings.load import load
from gpuruntime.worker.options import WorkerOptions
from tests.options import configured

NOW = datetime(2025, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
OPTIONS = configured(
    SidecarOptions,
    broker_url="nats://nats:4222",
    subject_prefix="gpu",
    ack_wait_seconds=20.0,
    drain_seconds=7.5,
)
FUNCTION = Serverless(
    requestID="echo",
    concurrency=3,
    timeoutSeconds=60,
    maxAttempts=2,
    framework=Framework(socketPath="/tmp/f/s.sock", invokePath="/do", healthPath="/well"),
    workerOf=WorkerOf(name="demo", uid="1"),
)
UNIT = GPUUnit(
    metadata=ObjectMeta(name="demo-w-1", namespace="units", uid="uid-1"),
    spec=GPUUnitSpec(specName="g1.1", serverless=FUNCTION),
)
VALIDITY = Validity(purpose="echo, by key 1", lifetime_seconds=3 * 3600.0)
MINTED = UserCredentials(text="words", expires_at=NOW + 3 * HOUR)
FILES = {"caFile": "authority", "tokenFile": "sesame"}


def stored(body: Any) -> Secret:
    return codec.decode(codec.encode(body), Secret)


def secret(
    *, files: dict[str, str] | None = None, minted: UserCredentials | None = MINTED
) -> Secret:
    given = {**(files or {}), **({"credentialsFile": minted.text} if minted else {})}
    return stored(secret_body(UNIT, secret_data(UNIT, OPTIONS, given), minted, VALIDITY))


def test_a_worker_loads_the_configuration_in_its_secret(tmp_path: Path) -> None:
    file = tmp_path / "worker.yaml"
    file.write_text(worker_settings(UNIT, OPTIONS, FILES))
    settings = load(str(file), flags={}, environment={})
    assert worker_options_of(settings) == configured(
        WorkerOptions,
        function="echo",
        name="demo-w-1",
        uid="uid-1",
        declarer="1",
        namespace="units",
        concurrency=3,
        attempt_seconds=60.0,
        max_attempts=2,
        framework=Framework(socketPath="/w/s.sock", invokePath="/do", healthPath="/well"),
        ack_wait_seconds=20.0,
        drain_seconds=7.5,
        retention_seconds=86_400.0,
    )
    nats = settings.nats
    assert (nats.url, nats.subjectPrefix, nats.user) == ("nats://nats:4222", "gpu", "")
    assert (nats.caFile, nats.tokenFile) == ("/etc/gpuruntime/ca", "/etc/gpuruntime/token")
    assert settings.operations.listen.port == 28_081


def test_each_file_named_in_the_configuration_is_in_the_secret() -> None:
    data = {
        name: base64.b64decode(text).decode() for name, text in secret(files=FILES).data.items()
    }
    assert data.keys() == {"worker.yaml", "ca", "token", "credentials"}
    assert (data["ca"], data["token"], data["credentials"]) == ("authority", "sesame", "words")
    for name in ("ca", "token", "credentials"):
        assert f"/etc/gpuruntime/{name}\n" in data["worker.yaml"]


def test_a_secret_is_never_printed() -> None:
    words = base64.b64encode(b"words").decode()
    assert words in secret().data.values()
    assert words not in repr(secret())


def test_a_secret_is_owned_by_its_unit() -> None:
    owner = secret().metadata.controller_owner
    assert owner is not None
    assert (secret().metadata.name, owner.name, owner.uid) == (
        "unit-demo-w-1",
        "demo-w-1",
        "uid-1",
    )


@pytest.mark.parametrize(
    ("passed", "seconds"),
    [(0 * HOUR, 7200.0), (HOUR, 3600.0), (2 * HOUR, 0.0), (9 * HOUR, 0.0)],
    ids=["new", "half of the time", "due", "expired"],
)
def test_credentials_are_renewed_when_a_third_of_their_lifetime_is_left(
    passed: timedelta, seconds: float
) -> None:
    now = NOW + passed
    assert renewal_seconds(secret(), VALIDITY, now) == seconds
    assert (kept_credentials(secret(), VALIDITY, now) == "words") is (seconds > 0)


@pytest.mark.parametrize(
    "live",
    [
        None,
        secret(minted=None),
        attrs.evolve(secret(), data={"credentials": "not base64"}),
        attrs.evolve(secret(), metadata=ObjectMeta(name="unit-demo-w-1")),
    ],
    ids=["none", "another login", "scribbled over", "without marks"],
)
def test_invalid_credentials_are_not_kept(live: Secret | None) -> None:
    assert kept_credentials(live, VALIDITY, NOW) is None


def test_credentials_for_another_purpose_are_not_kept() -> None:
    other = attrs.evolve(VALIDITY, purpose="echo, by key 2")
    assert kept_credentials(secret(), other, NOW) is None
    assert renewal_seconds(secret(), other, NOW) == 0.0


FILE_SETS = st.dictionaries(st.sampled_from(["caFile", "keyFile", "tokenFile"]), st.text())


@given(FILE_SETS, FILE_SETS, st.booleans())
def test_one_patch_leads_to_the_desired_secret(
    before: dict[str, str], wanted: dict[str, str], is_minted: bool
) -> None:
    live = secret(files=before)
    later = attrs.evolve(MINTED, text="other words", expires_at=NOW + 9 * HOUR)
    minted = later if is_minted else None
    given_files = {**wanted, "credentialsFile": later.text if is_minted else MINTED.text}
    body = secret_body(UNIT, secret_data(UNIT, OPTIONS, given_files), minted, VALIDITY)
    patch: Any = patch_of_secret(live, body)
    data = {**live.data, **patch.get("data", {})}
    marks = {
        **live.metadata.annotations,
        **patch.get("metadata", {}).get("annotations", {}),
    }
    mended = attrs.evolve(
        live,
        data={name: text for name, text in data.items() if text is not None},
        metadata=attrs.evolve(live.metadata, annotations=marks),
    )
    assert mended.data == body["data"]
    assert patch_of_secret(mended, body) == {}
    assert bool(patch) is (before != wanted or is_minted)
