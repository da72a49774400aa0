"""The file of tokens is read strictly, and followed while it changes."""

import asyncio
import hashlib
import re
from operator import not_
from pathlib import Path

import pytest
import structlog

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.errors import ConfigurationError
from gpuruntime.roles import reloaded_file
from gpuruntime.roles.token_file import TokenFile, read_tokens
from gpuruntime.strict import yaml_documents
from gpuruntime.strict.yaml_documents import mapping_of
from gpuruntime.telemetry.metrics import Registry
from tests.eventually import equals, eventually

DIGEST = hashlib.sha256(b"secret").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


def entry(name: str = "ci", digest: str = DIGEST, rest: str = "role: operator") -> str:
    return f"- name: {name}\n  sha256: {digest!r}\n  {rest}\n"


def written(folder: Path, *entries: str) -> str:
    """Replace the file in one step, so that no reader finds half of it."""
    path, other = folder / "tokens.yaml", folder / "other.yaml"
    other.write_text("tokens:\n" + "".join(entries))
    other.replace(path)
    return str(path)


def remove(folder: Path) -> None:
    (folder / "tokens.yaml").unlink()


def refusal(folder: Path, *entries: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_tokens(written(folder, *entries))
    return str(caught.value)


def test_each_entry_is_a_principal_found_by_its_digest(tmp_path: Path) -> None:
    team = entry("team", OTHER, "role: tenant\n  tenants: [a, b]")
    assert read_tokens(written(tmp_path, entry(), team)) == {
        bytes.fromhex(DIGEST): Principal(name="ci", role=Role.OPERATOR),
        bytes.fromhex(OTHER): Principal(
            name="team", role=Role.TENANT, tenants=frozenset({"a", "b"})
        ),
    }


def test_the_documented_token_file_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "authentication.md").read_text()
    (shown,) = re.findall(r"```yaml\n(tokens:\n.*?)```", page, re.DOTALL)
    path = tmp_path / "tokens.yaml"
    path.write_text(shown)
    assert {each.role for each in read_tokens(str(path)).values()} == set(Role)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (entry(rest="role: king"), "tokens[0].role: must be one of operator, viewer, tenant"),
        (entry(rest="role: tenant"), "tokens[0].tenants: is empty: a tenant has at least one"),
        (entry(rest="role: operator\n  tenants: [a]"), "tokens[0].tenants: binds an operator"),
        (entry(rest="role: tenant\n  tenants: ['a/b']"), "tokens[0].tenants: 'a/b': no value"),
        (entry(rest="role: viewer\n  plain: x"), "tokens[0].plain: unknown field"),
        (entry(name="'two words'"), "tokens[0].name: must be 1 to 128"),
        (entry(digest="secret"), "tokens[0].sha256: must be the SHA-256 of a token"),
        (entry() + entry("other"), "tokens[1].sha256: occurs twice"),
        (entry() + entry(digest=OTHER), "tokens[1].name: occurs twice"),
        ("- 7\n", "tokens[0]: must be an object"),
    ],
    ids=[
        "unknown role",
        "tenant without tenants",
        "operator with tenants",
        "bad tenant",
        "unknown field",
        "bad name",
        "bad digest",
        "second digest",
        "second name",
        "number",
    ],
)
def test_every_fault_of_an_entry_is_named(tmp_path: Path, bad: str, words: str) -> None:
    message = refusal(tmp_path, bad)
    assert words in message
    assert DIGEST not in message


def test_a_plain_token_in_the_file_is_not_repeated(tmp_path: Path) -> None:
    assert "hunter2" not in refusal(tmp_path, entry(digest="hunter2"))


@pytest.mark.parametrize("line", ['  sha256: "hunter2', "  sha256: hunter2: hunter2"])
def test_a_line_that_is_no_yaml_is_named_and_not_quoted(tmp_path: Path, line: str) -> None:
    message = refusal(tmp_path, f"- name: ci\n{line}\n")
    assert "not YAML: line " in message
    assert "hunter2" not in message


async def test_a_changed_file_takes_effect_without_a_restart_and_a_broken_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloaded_file, "LOOK_SECONDS", 0.01)
    meter = Registry()
    file = TokenFile(written(tmp_path, entry()), meter)

    def is_broken() -> bool:
        return b"gpuruntime_auth_token_file_broken 1.0" in meter.text()

    with structlog.testing.capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(file.run())
            await asyncio.sleep(0)
            assert not is_broken()

            written(tmp_path, entry(digest=OTHER))
            await eventually(lambda: list(file.principals()) == [bytes.fromhex(OTHER)])

            written(tmp_path, entry(digest="broken"))
            await eventually(is_broken)
            await asyncio.sleep(0.1)
            assert is_broken()
            assert list(file.principals()) == [bytes.fromhex(OTHER)]

            remove(tmp_path)
            await eventually(lambda: len(logs), equals(3))
            written(tmp_path, entry(digest=OTHER))
            await eventually(is_broken, not_)

            written(tmp_path, entry())
            await eventually(lambda: list(file.principals()) == [bytes.fromhex(DIGEST)])
            task.cancel()
    assert [each["log_level"] for each in logs] == ["info", "warning", "warning", "info"]


async def test_an_unchanged_file_is_not_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloaded_file, "LOOK_SECONDS", 0.01)
    parsed: list[bytes] = []

    def counted(data: bytes, where: str) -> dict[str, object]:
        parsed.append(data)
        return mapping_of(data, where)

    monkeypatch.setattr(yaml_documents, "mapping_of", counted)
    file = TokenFile(written(tmp_path, entry()), Registry())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(file.run())
        await asyncio.sleep(0.2)
        assert len(parsed) == 1
        written(tmp_path, entry(digest="broken"))
        await asyncio.sleep(0.2)
        assert len(parsed) == 2
        task.cancel()
