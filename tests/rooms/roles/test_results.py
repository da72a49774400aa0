"""The program `gpuruntime results` on a real broker, and the configurations that it rejects."""

import sys
from pathlib import Path

import attrs
import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.models.kinds.invocations import State
from gpuruntime.roles.result_store import result_store
from gpuruntime.roles.results import results_role
from gpuruntime.serverless import results as results_package
from gpuruntime.settings.load import load
from gpuruntime.settings.results import PostgresSettings, ResultsSettings, StoreKind
from tests.eventually import equals, eventually
from tests.rooms.bus.broker import Broker, bus
from tests.rooms.roles.programs import Programs
from tests.rooms.roles.test_worker import readiness
from tests.rooms.serverless.results.test_follower import record, soon, state_of

POSTGRES = "nats: {url: 'nats://a'}\nresults: {store: postgres, "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("results: {store: kv}", "nats.url is empty"),
        ("results: {store: redis}", "results.store: must be one of kv, postgres"),
        ("results: {streamRetention: 25h}", "results.streamRetention: is longer than 24h"),
        ("results: {store: postgres}", "results.postgres: needs an address"),
        (POSTGRES + "retention: 1h, postgres: {urlFile: a}}", "results.retention: is shorter"),
        (POSTGRES + "postgres: {url: 'mysql://a@b/c'}}", "results.postgres.url: must be"),
        (POSTGRES + "postgres: {url: 'postgresql://a:b/c@d/e'}}", "results.postgres.url: must be"),
        (POSTGRES + "postgres: {url: 'postgresql://a:0/b'}}", "results.postgres.url: must be"),
        (POSTGRES + "postgres: {url: 'postgresql://a:pw@b/c'}}", "url: holds a secret: put"),
        (POSTGRES + "postgres: {url: 'postgresql://b/c?password=pw'}}", "url: holds a secret"),
        (POSTGRES + "postgres: {url: 'postgresql://a', urlFile: b}}", "urlFile: is a second"),
        (POSTGRES + "postgres: {urlFile: a, passwordFile: b}}", "passwordFile: goes with url"),
        ("results: {postgres: {schema: pg_x}}", "results.postgres.schema: must be at most"),
        ("results: {postgres: {schema: 'a\"b'}}", "results.postgres.schema: must be at most"),
        ("results: {postgres: {poolSize: 0}}", "results.postgres.poolSize: must be 1 to 100"),
    ],
)
def test_a_bad_configuration_is_rejected_by_name_and_without_secrets(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        results_role(load(str(path), flags={}, environment={}))
    assert words in str(caught.value)
    assert "pw@" not in str(caught.value)


async def test_a_database_without_its_extra_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.delitem(sys.modules, "gpuruntime.serverless.results.postgres", raising=False)
    monkeypatch.delattr(results_package, "postgres", raising=False)
    kept = ResultsSettings(
        store=StoreKind.POSTGRES, postgres=PostgresSettings(url="postgresql://db")
    )
    settings = attrs.evolve(load("", flags={}, environment={}), results=kept)
    with pytest.raises(ConfigurationError, match=r"install gpuruntime\[postgres\]"):
        async with result_store(settings, name="test"):
            pass


def test_the_url_of_the_database_may_come_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "results.yaml"
    path.write_text("results: {store: postgres, postgres: {passwordFile: word}}")
    address = "postgresql://gpuruntime@db:5432/results?sslmode=verify-full"
    loaded = load(str(path), flags={}, environment={"GPURUNTIME_POSTGRES_URL": address})
    assert loaded.results.postgres.url == address


async def test_a_role_without_a_database_ends_overdue_invocations_and_stops_on_a_signal(
    program: Programs, shared: Broker
) -> None:
    async with bus(shared.url, "role") as made:
        process = program.start("results", nats={"url": made.url, "subjectPrefix": "role"})
        process.wait_until_ready()
        assert readiness(process) == "ok"
        await made.records.write(record("late", deadlineAt=soon(0.2)), expected=0)
        await made.records.write(record("done", State.SUCCEEDED), expected=0)
        await eventually(lambda: process.metric("gpuruntime_results_expired_total"), equals(1))
        assert await state_of(made, "late") is State.EXPIRED
        assert process.stop() == 0
