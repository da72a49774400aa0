"""The certificate of the api follows its files while they change."""

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest
import structlog
from aiohttp import web

from gpuruntime.errors import ConfigurationError
from gpuruntime.roles.certificates import LOOK_SECONDS, Certificate, context_of
from gpuruntime.roles.options import API_HEAD_BYTES
from gpuruntime.roles.process import over_http
from gpuruntime.settings.access import TlsSettings
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address
from gpuruntime.strict.durations import Seconds
from tests.rooms.kube.servers import Authority

pytestmark = pytest.mark.looptime

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    for name in ("first", "second"):
        made.issue(name, host=name)
    return made


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> TlsSettings:
    made = TlsSettings(
        certificateFile=str(tmp_path / "tls.crt"), keyFile=str(tmp_path / "tls.key")
    )
    put(authority, made, "first")
    return made


def put(authority: Authority, tls: TlsSettings, name: str, *, key_of: str = "") -> None:
    folder = authority.certificate.file.parent
    shutil.copy(folder / f"{name}.pem", tls.certificateFile)
    shutil.copy(folder / f"{key_of or name}.key", tls.keyFile)


async def shown(authority: Authority, address: str, name: str) -> bool:
    """Return whether the server presents a certificate for this name."""
    context = ssl.create_default_context(cafile=str(authority.certificate.file))
    port = int(address.rpartition(":")[2])
    try:
        _, writer = await asyncio.open_connection(HOST, port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_a_new_pair_is_used_without_a_restart_and_half_of_one_is_not(
    authority: Authority, tls: TlsSettings
) -> None:
    settings = Settings(listen=Address(HOST, 0), tls=tls, shutdownGrace=Seconds(0.1))
    with structlog.testing.capture_logs() as logs:
        async with over_http(web.Application(), settings, API_HEAD_BYTES) as address:
            assert address.startswith("https://")
            assert await shown(authority, address, "first")

            put(authority, tls, "second", key_of="first")
            await asyncio.sleep(LOOK_SECONDS * 3)
            assert await shown(authority, address, "first")

            put(authority, tls, "second")
            await asyncio.sleep(LOOK_SECONDS)
            assert await shown(authority, address, "second")
            assert not await shown(authority, address, "first")
    assert [each["log_level"] for each in logs] == ["warning", "info"]


async def test_there_is_no_certificate_without_files() -> None:
    async with context_of(TlsSettings()) as context:
        assert context is None


@pytest.mark.parametrize("fault", ["missing", "swapped", "empty"])
def test_files_that_hold_no_certificate_are_named(
    authority: Authority, tls: TlsSettings, fault: str
) -> None:
    if fault == "missing":
        Path(tls.keyFile).unlink()
    elif fault == "swapped":
        put(authority, tls, "first", key_of="second")
    else:
        Path(tls.certificateFile).write_text("")
    with pytest.raises(ConfigurationError, match=r"tls: .*tls\.key"):
        Certificate(tls)
