"""The console's files: complete, with their media types, and confined by their policy."""

import re
from collections.abc import AsyncIterator
from importlib.resources import files

import pytest

from gpuruntime.api.auth.access import Open
from gpuruntime.api.auth.tokens import TokenGuard
from gpuruntime.api.console.static_files import CONSOLE, PAGE_POLICY, console_files, file_names
from tests.rooms.api.service import Service, service
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

FOLDER = files("gpuruntime") / "console"
# Calls that turn a text into markup, code or requests.
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser"
    r"|localStorage|document\.cookie|setAttribute\(\"(on|style|href|src)|https?://"
)
IMPORT = re.compile(r'^import .* from "\./([a-z]+\.js)";$', re.MULTILINE)


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    """Yield an API that identifies every caller; the console's page asks for the token."""
    async with service(Cluster(), guard=TokenGuard(dict)) as served:
        yield served


def content(name: str) -> str:
    return (FOLDER / name).read_text()


async def test_every_file_has_its_media_type_and_the_policy(api: Service) -> None:
    types = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
    assert {"index.html", "console.css", "console.js", "icon.svg"} <= set(file_names())
    for name in (*file_names(), ""):
        async with api.client.get(f"{CONSOLE}{name}", allow_redirects=False) as response:
            if name == "index.html":
                assert response.status == 404
                continue
            assert response.status == 200, name
            assert (await response.read()).decode() == content(name or "index.html")
            suffix = (name or "index.html").rpartition(".")[2]
            assert response.content_type == types.get(suffix, "image/svg+xml")
            headers = response.headers
            assert headers["Content-Security-Policy"] == PAGE_POLICY
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"


def test_the_policy_allows_no_other_host_and_no_inline_code() -> None:
    assert PAGE_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "frame-ancestors 'none'" in PAGE_POLICY
    assert "unsafe" not in PAGE_POLICY
    page = content("index.html")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon[a-z]+=|\bstyle=", page)


@pytest.mark.parametrize("path", ["/", "/console"])
async def test_a_path_that_leads_to_the_page_redirects(api: Service, path: str) -> None:
    async with api.client.get(path, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (308, "/console/")


@pytest.mark.parametrize(
    "path", ["../api/app.py", "%2e%2e/api/app.py", "console.js/", "events", "__init__.py", "a.js"]
)
async def test_no_other_path_is_served(api: Service, path: str) -> None:
    async with api.client.get(f"{CONSOLE}{path}") as response:
        assert response.status == 404


def test_the_files_are_open_and_change_nothing() -> None:
    for route in console_files():
        assert isinstance(route.access, Open)
        assert route.method == "GET"


def test_no_script_renders_text_as_markup_or_stores_a_token() -> None:
    for name in file_names():
        if name.endswith(".js"):
            assert not UNSAFE.findall(content(name)), name


def test_every_module_exists_and_is_imported() -> None:
    scripts = {name for name in file_names() if name.endswith(".js")}
    imported = {found for name in scripts for found in IMPORT.findall(content(name))}
    assert imported | {"console.js"} == scripts
