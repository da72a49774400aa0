"""The files of the terminal's page: complete, confined by their policy, and as their authors made
them.
"""

import hashlib
import json
import re
from importlib.resources import files

import pytest

from gpuruntime.gateway.containers.exec_session import ExecSessions
from gpuruntime.gateway.containers.session import SessionTimes
from gpuruntime.gateway.containers.terminal_page import FILES, TerminalPage
from gpuruntime.gateway.gate import Visitor
from gpuruntime.kube.client import Client
from gpuruntime.models.requests.tickets import Use
from tests.rooms.gateway.containers.scripted_cluster import (
    ScriptedCluster,
    new_connections,
    serving,
    visitor,
)

FOLDER = files("gpuruntime") / "terminal"
VENDORED = json.loads((FOLDER / "vendored" / "VENDORED.json").read_text())
# Calls that turn a text into markup, code or requests of another host.
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser"
    r"|localStorage|document\.cookie|https?://"
)


async def admit(*_: object) -> Visitor:
    return visitor(Use.EXEC)


def page() -> TerminalPage:
    client = Client(ScriptedCluster())
    return TerminalPage(
        ExecSessions(client, new_connections(), SessionTimes(idle_seconds=60.0)), admit
    )


async def test_every_file_has_its_media_type_and_the_policy() -> None:
    async with serving(
        lambda request, _: page().serve(request, "demo"), visitor(Use.EXEC)
    ) as site:
        nonces = set()
        for name, media_type in FILES.items():
            path = "/" if name == "index.html" else f"/{name}"
            async with site.client.get(path) as answer:
                assert (answer.status, answer.content_type) == (200, media_type), name
                policy = answer.headers["Content-Security-Policy"]
                nonces |= set(re.findall(r"'nonce-([\w-]{20,})'", policy))
                assert policy.startswith("default-src 'none'; script-src 'self'; ")
                assert "unsafe" not in policy.replace("style-src-attr 'unsafe-inline'", "")
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                if path == "/":
                    shown = re.findall(r'nonce="([^"]+)"', await answer.text())
                    assert set(shown) <= nonces
        assert len(nonces) == len(FILES)


@pytest.mark.parametrize(
    "path", ["/index.html", "/other", "/vendored/", "/vendored/VENDORED.json"]
)
async def test_no_other_file_is_served(path: str) -> None:
    async with (
        serving(lambda request, _: page().serve(request, "demo"), visitor(Use.EXEC)) as site,
        site.client.get(path) as answer,
    ):
        assert answer.status == 404


def test_every_file_that_the_page_names_is_there() -> None:
    text = (FOLDER / "index.html").read_text() + (FOLDER / "terminal.js").read_text()
    named = set(re.findall(r'(?:href|src)="([^"]+)"|\("\./([^"]+)"\)|from "\./([^"]+)"', text))
    assert {name for each in named for name in each if name} == {
        name for name in FILES if name != "index.html" and "LICENSE" not in name
    }


def test_our_code_makes_no_markup_of_texts() -> None:
    for name in ("index.html", "terminal.js", "terminal.css"):
        assert not UNSAFE.search((FOLDER / name).read_text()), name
    page_text = (FOLDER / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon[a-z]+=|\bstyle=", page_text)


def test_the_vendored_files_are_those_of_their_packages() -> None:
    found = {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in (FOLDER / "vendored").iterdir()
        if each.name != "VENDORED.json"
    }
    assert found == VENDORED["sha256"]
    licences = {each["license"] for each in VENDORED["packages"].values()}
    assert licences <= set(found)
    assert {f"vendored/{name}" for name in found} <= set(FILES)
