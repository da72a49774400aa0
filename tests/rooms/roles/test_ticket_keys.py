"""The file of ticket keys is read strictly, and followed through a rotation."""

import asyncio
import base64
import re
from pathlib import Path

import pytest
import structlog

from gpuruntime.errors import ConfigurationError
from gpuruntime.models.requests.tickets import Use
from gpuruntime.roles import reloaded_file
from gpuruntime.roles.ticket_keys import TicketKeyFile, keys_in
from gpuruntime.telemetry.metrics import Registry
from gpuruntime.tickets.keys import KeyRing, TicketKey
from gpuruntime.tickets.tokens import Claims, TokenRefusedError, TokenType, sign, verify
from tests.eventually import equals, eventually

ONE = base64.b64encode(b"1" * 32).decode()
TWO = base64.b64encode(b"2" * 48).decode()
CLAIMS = Claims(
    jti="7a", uid="u", unit="demo", gen=0, use=(Use.EXEC,), iat=0, exp=4_000_000_000, sub="ci"
)


def entry(key_id: str = "a", secret: str = ONE, rest: str = "") -> str:
    return f"- id: {key_id}\n  secret: {secret}\n  {rest}\n"


def written(folder: Path, *entries: str) -> str:
    """Replace the file in one step, so that no reader finds half of it."""
    path, other = folder / "tickets.yaml", folder / "other.yaml"
    other.write_text("keys:\n" + "".join(entries))
    other.replace(path)
    return str(path)


def read(*entries: str) -> KeyRing:
    return keys_in(("keys:\n" + "".join(entries)).encode(), "tickets.yaml")


def test_the_keys_keep_their_order_and_their_ends() -> None:
    ring = read(entry(), entry("b", TWO, "until: 2026-12-01T00:00:00Z"))
    assert ring == KeyRing(
        (
            TicketKey(id="a", secret=b"1" * 32),
            TicketKey(id="b", secret=b"2" * 48, until=1_796_083_200.0),
        )
    )
    assert ring == read(entry(), entry("b", TWO, "until: '2026-12-01T01:00:00+01:00'"))


def test_the_documented_key_file_is_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reach.md").read_text()
    (shown,) = re.findall(r"```yaml\n(keys:\n.*?)```", page, re.DOTALL)
    assert [key.id for key in keys_in(shown.encode(), "x").keys] == ["2026-11", "2026-08"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("", "keys: must be a list"),
        ("[]", "keys: is empty: the first key signs"),
        ("- 7", "keys[0]: must be an object"),
        (entry("'a b'"), "keys[0].id: must be 1 to 64"),
        (entry("''"), "keys[0].id: must be 1 to 64"),
        (entry(secret=base64.b64encode(b"1" * 31).decode()), "keys[0].secret: must be base64"),
        (entry(secret="hunter2!"), "keys[0].secret: must be base64"),
        (entry(secret="7"), "keys[0].secret: must be base64"),
        (entry() + entry("b") + entry(), "keys[2].id: occurs twice"),
        (entry(rest="until: 2026-12-01T00:00:00Z"), "keys[0].until: must be left out"),
        (entry() + entry("b", TWO, "until: 2026-12-01"), "keys[1].until: must be a moment"),
        (entry() + entry("b", TWO, "until: 2026-12-01T00:00:00"), "keys[1].until: must be a mom"),
        (entry() + entry("b", TWO, "until: soon"), "keys[1].until: must be a moment"),
        (entry(rest="since: 1"), "keys[0].since: unknown field"),
        ("".join(entry(f"k{n}") for n in range(33)), "keys: are more than 32"),
    ],
    ids=[
        "null",
        "no keys",
        "number",
        "bad id",
        "empty id",
        "short secret",
        "no base64",
        "secret that is a number",
        "second id",
        "first key with an end",
        "date",
        "moment without a zone",
        "word",
        "unknown field",
        "33 keys",
    ],
)
def test_every_fault_of_the_file_is_named_without_a_secret(bad: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        keys_in(f"keys:\n{bad}".encode() if bad[:1] == "-" else f"keys: {bad}".encode(), "x")
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert ONE not in str(caught.value)


def counts(ticket: str, file: TicketKeyFile) -> bool:
    ring = file.ring()
    assert ring is not None
    try:
        return verify(ticket, TokenType.TICKET, ring, now=0) == CLAIMS
    except TokenRefusedError:
        return False


def ids_of(file: TicketKeyFile) -> tuple[str, ...]:
    ring = file.ring()
    return tuple(key.id for key in ring.keys) if ring else ()


def signed(file: TicketKeyFile) -> str:
    ring = file.ring()
    assert ring is not None
    return sign(CLAIMS, TokenType.TICKET, ring.signing)


async def test_a_rotation_keeps_tickets_at_every_step_on_replicas_that_share_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloaded_file, "LOOK_SECONDS", 0.01)
    path = written(tmp_path, entry())
    replicas = TicketKeyFile(path, Registry()), TicketKeyFile(path, Registry())

    async def both_have(*ids: str) -> None:
        await eventually(lambda: [ids_of(each) for each in replicas], equals([ids, ids]))

    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(each.run()) for each in replicas]
        old = signed(replicas[0])
        assert counts(old, replicas[1])

        written(tmp_path, entry(), entry("b", TWO))
        await both_have("a", "b")
        assert counts(signed(replicas[0]), replicas[1])

        written(tmp_path, entry("b", TWO), entry(rest="until: 2100-01-01T00:00:00Z"))
        await both_have("b", "a")
        new = signed(replicas[1])
        assert counts(old, replicas[0])
        assert counts(new, replicas[0])

        written(tmp_path, entry("b", TWO))
        await both_have("b")
        assert not counts(old, replicas[0])
        assert counts(new, replicas[1])
        for each in following:
            each.cancel()


async def test_a_broken_file_keeps_the_last_good_keys_and_shows_in_the_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloaded_file, "LOOK_SECONDS", 0.01)
    meter = Registry()
    past = "until: 2020-01-01T00:00:00Z"
    path = written(tmp_path, entry(), entry("b", TWO), entry("c", TWO, past))
    file = TicketKeyFile(path, meter)
    ring = file.ring()

    def shown() -> dict[str, str]:
        lines = meter.text().decode().splitlines()
        found = [line.partition('{state="')[2] for line in lines if "ticket_keys{" in line]
        return {each.partition('"')[0]: each.rpartition(" ")[2] for each in found}

    def is_broken() -> bool:
        return shown()["broken"] == "1.0"

    with structlog.testing.capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(file.run())
            await asyncio.sleep(0)
            assert shown() == {
                "signing": "1.0",
                "verifying": "1.0",
                "expired": "1.0",
                "broken": "0.0",
            }

            written(tmp_path, entry(secret="broken"))
            await eventually(is_broken)
            assert file.ring() is ring
            (tmp_path / "tickets.yaml").unlink()
            await asyncio.sleep(0.1)
            assert file.ring() is ring
            written(tmp_path, entry())
            await eventually(lambda: not is_broken())
            assert file.ring() == read(entry())
            task.cancel()
    assert all(ONE not in str(each) for each in logs)


async def test_a_missing_file_means_no_keys_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloaded_file, "LOOK_SECONDS", 0.01)
    file = TicketKeyFile(str(tmp_path / "tickets.yaml"), Registry())
    assert file.ring() is None
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(file.run())
        await asyncio.sleep(0.05)
        assert file.ring() is None
        written(tmp_path, entry())
        await eventually(lambda: file.ring() == read(entry()))
        task.cancel()


def test_a_broken_file_at_the_start_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ticket key file .*keys\[0\]\.secret"):
        TicketKeyFile(written(tmp_path, entry(secret="broken")), Registry())
