"""The programs of the database: how they are found, with a stand-in for the package manager."""

import os
from pathlib import Path

import pytest

from tests.rooms.serverless import binaries
from tests.rooms.serverless.results import database

APT_GET = """#!/bin/sh
# Knows its packages once it has fetched the lists of them.
case "$*" in
  *update*) echo update >> "$NOTES"; touch "$NOTES.lists" ;;
  *install*) echo install >> "$NOTES"; [ -e "$NOTES.lists" ] || exit 100
             for name in initdb postgres pg_isready; do
               echo "#!/bin/sh" > "$TOOLS/$name"; chmod +x "$TOOLS/$name"
             done ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a PATH without PostgreSQL, and no installation elsewhere."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "touch", "chmod"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setattr(database, "DEBIAN", tmp_path / "none")
    monkeypatch.delenv(database.URL_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("TOOLS", str(folder))
    return folder


@pytest.fixture
def notes(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the package manager's calls on a machine where we may install."""
    (tools / "apt-get").write_text(APT_GET)
    (tools / "apt-get").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return tmp_path / "notes"


def test_a_machine_without_package_lists_fetches_them_first(notes: Path) -> None:
    assert binaries.main() == 0
    assert notes.read_text().split() == ["update", "install"]


def test_present_programs_are_not_installed_again(notes: Path) -> None:
    binaries.main()
    notes.unlink()
    assert binaries.main() == 0
    assert not notes.exists()


@pytest.mark.usefixtures("tools")
def test_without_a_package_manager_the_remedy_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert binaries.main() == 1
    assert f"name a server in {database.URL_VARIABLE}" in capsys.readouterr().err


def test_no_program_is_needed_if_a_server_is_given(
    notes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(database.URL_VARIABLE, "postgresql://somewhere")
    assert binaries.main() == 0
    assert not notes.exists()
    assert "tests that stop their database will fail" in capsys.readouterr().err
