"""Headers of every answer: of routes, of refusals, and of answers to invalid bytes."""

import asyncio
import hashlib
import re
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from random import Random

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from gpuruntime.api.http.security_headers import CLOSED, POLICY, add_common_headers, common_headers
from gpuruntime.api.http.server import ConnectionLimits, ServerRunner
from tests.options import configured
from tests.rooms.api.service import UNITS, Service, service
from tests.rooms.kube.servers import Authority
from tests.rooms.operations.cluster import Cluster

pytestmark = pytest.mark.looptime

ON_ALL = {
    "Server": "gpuruntime",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
ONLY_TLS = "Strict-Transport-Security"


@pytest.fixture
async def api() -> AsyncIterator[Service]:
    async with service(Cluster()) as served:
        yield served


def assert_marked(headers: Mapping[str, str], where: str) -> None:
    told = {name: headers.get(name) for name in ON_ALL}
    assert told == ON_ALL, where
    assert headers.get("X-Request-Id"), where
    assert headers["Cache-Control"] == "no-store", where
    assert "frame-ancestors 'none'" in headers[POLICY], where
    assert ONLY_TLS not in headers, f"{where}: a browser would pass over it, and a proxy might not"


async def test_every_route_and_every_refusal_has_the_headers(api: Service) -> None:
    routes = [
        (route.method, re.sub(r"\{\w+\}|[{}]", "x", route.resource.canonical))
        for route in api.client.app.router.routes()
        if route.resource is not None
    ]
    assert len(routes) > 50
    refused = [("GET", "/nowhere"), ("PATCH", UNITS), ("OPTIONS", UNITS), ("POST", UNITS)]
    for method, path in (*routes, *refused):
        async with api.client.request(method, path) as response:
            assert_marked(response.headers, f"{method} {path}: {response.status}")


async def test_the_answer_to_invalid_bytes_has_the_headers(api: Service) -> None:
    assert api.client.port
    reader, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(b"nonsense\r\n\r\n")
    assert_marked(headers_in(await reader.read(-1)), "nonsense")
    writer.close()


def test_an_answer_may_set_its_own_policy_and_no_other_header() -> None:
    brought = {
        POLICY: "default-src 'self'",
        "Cache-Control": "max-age=60",
        "Server": "dufs/0.47",
        "X-Frame-Options": "ALLOWALL",
        "Referrer-Policy": "unsafe-url",
        "X-Content-Type-Options": "sniff",
        "X-Request-Id": "forged",
    }
    answer = web.Response(headers=brought)
    add_common_headers(answer, "known", is_encrypted=False)
    kept = {name: brought[name] for name in (POLICY, "Cache-Control")}
    assert dict(answer.headers) == {
        **ON_ALL,
        **kept,
        "X-Request-Id": "known",
    }


def test_only_encrypted_answers_ask_for_https() -> None:
    assert ONLY_TLS not in common_headers("a", is_encrypted=False)
    assert common_headers("a", is_encrypted=True)[ONLY_TLS].startswith("max-age=")
    assert "default-src 'none'" in CLOSED


async def test_answers_over_tls_ask_for_https(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.issue("api", host="here")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(shown.file, shown.key)
    app = web.Application()

    async def marked(request: web.Request, response: web.StreamResponse) -> None:
        add_common_headers(response, "one", is_encrypted=request.secure)

    app.on_response_prepare.append(marked)
    runner = ServerRunner(
        app, rng=Random(1), limits=configured(ConnectionLimits, most=1), shutdown_timeout=1.0
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    host, port = runner.addresses[0]
    trusted = ssl.create_default_context(cafile=str(authority.certificate.file))
    try:
        async with aiohttp.ClientSession() as session:
            forged = {"X-Forwarded-Proto": "http"}
            url = f"https://{host}:{port}/"
            async with session.get(
                url, ssl=trusted, server_hostname="here", headers=forged
            ) as held:
                assert held.headers[ONLY_TLS].startswith("max-age=")
                refused, writer = await asyncio.open_connection(
                    host, port, ssl=trusted, server_hostname="here"
                )
                too_many = headers_in(await refused.read(-1))
                writer.close()
        assert too_many[ONLY_TLS].startswith("max-age=")
    finally:
        await runner.cleanup()


async def test_the_page_runs_its_own_scripts_alone(api: Service) -> None:
    async with api.client.get("/swagger/index.html") as response:
        policy, page = response.headers[POLICY], await response.text()
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["script-src"] == f"'self' 'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert "on" not in {name[:2] for name in re.findall(r"<\w+[^>]*\s(\w+)=", page)}


def headers_in(answer: bytes) -> Mapping[str, str]:
    lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return CIMultiDict(
        (name, value) for name, _, value in (each.partition(": ") for each in lines)
    )
