"""TLS as the kubeconfig configures it, and certificates that rotate under running requests."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.sources import Kubeconfig
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.http import HttpTransport, connect
from gpuruntime.kube.transport import Request
from tests.rooms.kube.connect.kubeconfigs import write_kubeconfig
from tests.rooms.kube.servers import Authority, Certificate, common_name, proxying, serving

HOST = "kube.example"
GET = Request(method="GET", path="/")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def connected(config: Path) -> AsyncIterator[HttpTransport]:
    transport = await connect(Kubeconfig(str(config)), now=lambda: datetime.now(UTC))
    try:
        yield transport
    finally:
        await transport.close()


async def ok(_: web.BaseRequest) -> web.Response:
    return web.Response(body=b"ok")


def cluster_of(authority: Authority, **members: str) -> dict[str, Any]:
    file = str(authority.certificate.file)
    return {"certificate-authority": file, "tls-server-name": HOST, **members}


def user_of(certificate: Certificate) -> dict[str, str]:
    return {
        f"client-{part}-data": base64.b64encode(file.read_bytes()).decode()
        for part, file in (("certificate", certificate.file), ("key", certificate.key))
    }


async def test_the_certificate_is_checked_against_the_tls_server_name(
    tmp_path: Path, authority: Authority
) -> None:
    async with serving(ok, authority.server_context(HOST)) as url:
        config = write_kubeconfig(tmp_path, url, cluster=cluster_of(authority))
        async with connected(config) as transport:
            assert (await transport.request(GET)).body == b"ok"
            async with transport.stream(GET) as stream:
                assert [chunk async for chunk in stream.chunks()] == [b"ok"]


async def test_a_server_with_another_name_is_rejected(
    tmp_path: Path, authority: Authority
) -> None:
    async with serving(ok, authority.server_context("other.example")) as url:
        config = write_kubeconfig(tmp_path, url, cluster=cluster_of(authority))
        async with connected(config) as transport:
            with pytest.raises(UnreachableError, match="certificate"):
                await transport.request(Request(method="PUT", path="/"))


async def test_an_unverified_server_is_accepted_only_if_the_cluster_says_so(
    tmp_path: Path, authority: Authority
) -> None:
    async with serving(ok, authority.server_context(HOST)) as url:
        config = write_kubeconfig(tmp_path, url, cluster={"insecure-skip-tls-verify": True})
        async with connected(config) as transport:
            assert (await transport.request(GET)).status == 200
        async with connected(write_kubeconfig(tmp_path, url)) as transport:
            with pytest.raises(UnreachableError, match="certificate verify failed"):
                await transport.request(GET)


async def test_requests_and_streams_go_through_the_proxy_with_the_tls_server_name(
    tmp_path: Path, authority: Authority
) -> None:
    async with (
        serving(ok, authority.server_context(HOST)) as url,
        proxying(url) as (proxy, connects),
    ):
        server = "https://api.elsewhere.invalid:6443"
        cluster = cluster_of(authority, **{"proxy-url": proxy})
        config = write_kubeconfig(tmp_path, server, cluster=cluster)
        async with connected(config) as transport:
            assert (await transport.request(GET)).body == b"ok"
            async with transport.stream(GET) as stream:
                assert stream.status == 200
    assert connects == ["CONNECT api.elsewhere.invalid:6443 HTTP/1.1"] * 2


async def test_a_request_that_the_proxy_rejects_was_certainly_not_sent(
    tmp_path: Path, authority: Authority
) -> None:
    async def refuse(_: web.BaseRequest) -> web.Response:
        return web.Response(status=403)

    async with serving(refuse) as proxy:
        cluster = cluster_of(authority, **{"proxy-url": proxy})
        config = write_kubeconfig(tmp_path, "https://api.elsewhere.invalid", cluster=cluster)
        async with connected(config) as transport:
            with pytest.raises(UnreachableError):
                await transport.request(Request(method="PUT", path="/"))


async def test_keys_given_as_data_leave_no_file_behind(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    async def whoami(request: web.BaseRequest) -> web.Response:
        return web.Response(text=common_name(request))

    async with serving(whoami, authority.server_context(HOST, asks_for_clients=True)) as url:
        user = user_of(authority.issue("alice"))
        config = write_kubeconfig(tmp_path, url, user=user, cluster=cluster_of(authority))
        async with connected(config) as transport:
            assert list(temporary.iterdir()) == []
            assert (await transport.request(GET)).body == b"alice"


async def test_invalid_certificates_are_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    cluster = {"certificate-authority": "ca.pem"}
    config = write_kubeconfig(tmp_path, "https://127.0.0.1:1", cluster=cluster)
    line = f"kubeconfig {config}, context dev: the certificates cannot be used: "
    with pytest.raises(ConfigurationError, match=re.escape(line)):
        await connect(Kubeconfig(str(config)), now=lambda: datetime.now(UTC))


class Gatekeeper:
    """A server that accepts one client certificate; its streams last until released."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.released = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        name = common_name(request)
        if name != self.name:
            return web.Response(status=401)
        if request.path != "/stream":
            return web.Response(text=name)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await self.released.wait()
        await response.write(b"last")
        return response


async def test_a_rotated_client_certificate_means_a_new_session_while_the_old_streams_end(
    tmp_path: Path, authority: Authority
) -> None:
    gate = Gatekeeper("old")
    context = authority.server_context(HOST, asks_for_clients=True)
    async with serving(gate.handle, context) as url:
        cluster = cluster_of(authority)
        config = write_kubeconfig(
            tmp_path, url, user=user_of(authority.issue("old")), cluster=cluster
        )
        async with connected(config) as transport:
            async with transport.stream(Request(method="GET", path="/stream")) as stream:
                chunks = stream.chunks()
                assert await anext(chunks) == b"first"
                write_kubeconfig(
                    tmp_path, url, user=user_of(authority.issue("new")), cluster=cluster
                )
                gate.name = "new"
                assert (await transport.request(GET)).body == b"new"
                gate.released.set()
                assert [chunk async for chunk in chunks] == [b"last"]
            assert (await transport.request(GET)).body == b"new"


async def test_a_rotated_authority_is_trusted_after_a_reload(
    tmp_path: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The server moves to a new authority. A 401 on the old connection makes us read it."""
    successor = Authority(tmp_path_factory.mktemp("successor"))
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(authority.certificate.file.read_bytes())
    token = tmp_path / "token"
    token.write_text("old")

    async def handle(request: web.BaseRequest) -> web.Response:
        is_new = request.headers["Authorization"] == "Bearer new"
        return web.Response(status=200 if is_new else 401)

    context = authority.server_context(HOST)
    async with serving(handle, context) as url:
        cluster = {"certificate-authority": str(bundle), "tls-server-name": HOST}
        config = write_kubeconfig(tmp_path, url, user={"tokenFile": "token"}, cluster=cluster)
        async with connected(config) as transport:
            assert (await transport.request(GET)).status == 401
            bundle.write_bytes(successor.certificate.file.read_bytes())
            token.write_text("new")
            issued = successor.issue("successor", host=HOST)
            context.load_cert_chain(issued.file, issued.key)
            assert (await transport.request(GET)).status == 200
