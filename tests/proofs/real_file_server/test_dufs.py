"""Files of a storage through the real file server: reads, writes, listings, and their limits."""

import asyncio
from operator import not_
from pathlib import Path
from random import Random

import pytest

from gpuruntime.models.kinds.file_servers import ANY_ADDRESS
from tests.eventually import eventually
from tests.proofs.real_file_server.conftest import Served, answering, container_of, serving
from tests.rooms.api.files.upstream import request
from tests.rooms.api.http.test_server import exchange, statuses

pytestmark = pytest.mark.cluster

CONTENT = b"0123456789"


async def curl(*arguments: str, stdin: bytes = b"") -> bytes:
    process = await asyncio.create_subprocess_exec(
        "curl",
        *("-sS", "--max-time", "20", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate(stdin)
    assert process.returncode == 0, said
    return said


async def asked(
    served: Served, method: str, path: str, *, body: bytes = b"", **headers: str
) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = served.url(path)
    async with served.api.client.session.request(
        method, url, data=body or None, headers=named
    ) as answer:
        await answer.read()
        return answer.status


@pytest.mark.parametrize(
    ("headers", "status", "body", "content_range"),
    [
        ({"Range": "bytes=0-"}, 206, CONTENT, "bytes 0-9/10"),
        ({"Range": "bytes=0-0"}, 206, b"0", "bytes 0-0/10"),
        ({"Range": "bytes=7-"}, 206, b"789", "bytes 7-9/10"),
        ({"Range": "bytes=-3"}, 206, b"789", "bytes 7-9/10"),
        ({"Range": "bytes=2-5"}, 206, b"2345", "bytes 2-5/10"),
        ({"Range": "bytes=20-"}, 416, b"", "bytes */10"),
        ({}, 200, CONTENT, None),
    ],
    ids=["whole", "first byte", "from an offset", "last bytes", "middle", "past the end", "none"],
)
async def test_a_range_request_returns_that_part_of_the_file(
    served: Served, headers: dict[str, str], status: int, body: bytes, content_range: str | None
) -> None:
    (served.folder / "a.bin").write_bytes(CONTENT)
    session = served.api.client.session
    async with session.get(served.url("/a.bin"), headers=headers) as answer:
        assert answer.status == status
        assert answer.headers.get("Content-Range") == content_range
        assert answer.headers["Accept-Ranges"] == "bytes"
        assert await answer.read() == body


async def test_several_ranges_return_a_multipart_answer(served: Served) -> None:
    (served.folder / "a.bin").write_bytes(CONTENT)
    session = served.api.client.session
    headers = {"Range": "bytes=0-1,8-9"}
    async with session.get(served.url("/a.bin"), headers=headers) as answer:
        assert answer.status == 206
        assert answer.headers["Content-Type"].startswith("multipart/byteranges")
        body = await answer.read()
    assert b"bytes 0-1/10" in body
    assert b"bytes 8-9/10" in body


async def test_a_file_that_the_caller_has_already_is_not_sent_again(served: Served) -> None:
    (served.folder / "a.bin").write_bytes(CONTENT)
    session = served.api.client.session
    async with session.get(served.url("/a.bin")) as answer:
        tag, moment = answer.headers["ETag"], answer.headers["Last-Modified"]
    assert await asked(served, "GET", "/a.bin", If_None_Match=tag) == 304
    assert await asked(served, "GET", "/a.bin", If_Modified_Since=moment) == 304
    assert await asked(served, "GET", "/a.bin", If_Match='"other"') == 412
    whole = await asked(served, "GET", "/a.bin", Range="bytes=5-", If_Range='"other"')
    assert whole == 200
    assert await asked(served, "GET", "/a.bin", Range="bytes=5-", If_Range=tag) == 206


async def test_curl_resumes_a_download(served: Served, tmp_path: Path) -> None:
    content = Random(1).randbytes(300_000)
    (served.folder / "model.bin").write_bytes(content)
    half = tmp_path / "half"
    half.write_bytes(content[:100_000])
    await curl("-C", "-", "-o", str(half), served.url("/model.bin"))
    assert half.read_bytes() == content
    assert await curl("-r", "10-19,-5", served.url("/model.bin"))
    assert await curl("-r", "10-19", served.url("/model.bin")) == content[10:20]
    assert b"content-length: 300000" in (await curl("-I", served.url("/model.bin"))).lower()


async def test_curl_uploads_a_file_a_stream_and_an_empty_file(
    served: Served, tmp_path: Path
) -> None:
    content = Random(2).randbytes(3_000_000)
    source = tmp_path / "source"
    source.write_bytes(content)
    expecting = ("-H", "Expect: 100-continue")
    await curl("-f", "-T", str(source), *expecting, served.url("/a/b/whole.bin"))
    await curl("-f", "-T", "-", served.url("/stream.bin"), stdin=content)
    await curl("-f", "-X", "PUT", "-d", "", served.url("/empty.bin"))
    assert (served.folder / "a/b/whole.bin").read_bytes() == content
    assert (served.folder / "stream.bin").read_bytes() == content
    assert (served.folder / "empty.bin").read_bytes() == b""


async def test_an_upload_can_be_resumed(served: Served) -> None:
    assert await asked(served, "PUT", "/a.bin", body=CONTENT[:4]) == 201
    more = {"X_Update_Range": "append"}
    assert await asked(served, "PATCH", "/a.bin", body=CONTENT[4:], **more) == 204
    assert (served.folder / "a.bin").read_bytes() == CONTENT


async def test_unusual_names_are_returned_unchanged(served: Served) -> None:
    for name, written in (
        ("a b.txt", "/a%20b.txt"),
        ("100%.txt", "/100%25.txt"),
        ("%41", "/%2541"),
        ("模型.bin", "/%E6%A8%A1%E5%9E%8B.bin"),
        ("a+b;c=d&e", "/a+b;c=d&e"),
        ("q?#", "/q%3F%23"),
    ):
        assert statuses(await exchange(served.api, upload(written, name.encode()))) == [201]
        assert (served.folder / name).read_bytes() == name.encode()
        received = await exchange(served.api, request("GET", written))
        assert received.endswith(b"\r\n\r\n" + name.encode())


def upload(path: str, body: bytes) -> bytes:
    return request("PUT", path, b"Content-Length: %d" % len(body), body=body)


async def test_a_folder_is_listed_with_links_through_the_api(served: Served) -> None:
    (served.folder / "sub").mkdir()
    (served.folder / "sub/a.bin").write_bytes(CONTENT)
    session = served.api.client.session
    async with session.get(served.url("/sub/?json")) as answer:
        listed = await answer.json(content_type=None)
    assert [each["name"] for each in listed["paths"]] == ["a.bin"]
    assert listed["uri_prefix"] == "/api/v1/gpu-storages/models/files/"
    async with session.get(served.url("/")) as answer:
        page = await answer.text()
        assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    (asset,) = {part.split('"')[0] for part in page.split('src="')[1:] if ".js" in part[:200]}
    async with session.get(f"{served.address}{asset}") as answer:
        assert answer.status == 200


async def test_files_are_moved_copied_and_removed(served: Served) -> None:
    (served.folder / "a.bin").write_bytes(CONTENT)
    root = "/api/v1/gpu-storages/models/files"
    there = f"{served.address}{root}"
    assert await asked(served, "MKCOL", "/new") == 201
    assert await asked(served, "COPY", "/a.bin", Destination=f"{root}/new/b%20c.bin") == 204
    assert await asked(served, "MOVE", "/a.bin", Destination=f"{there}/new/d.bin") == 204
    assert (served.folder / "new/b c.bin").read_bytes() == CONTENT
    assert (served.folder / "new/d.bin").read_bytes() == CONTENT
    assert not (served.folder / "a.bin").exists()
    session = served.api.client.session
    async with session.request("PROPFIND", served.url("/new"), headers={"Depth": "1"}) as answer:
        assert answer.status == 207
        assert f"{root}/new/d.bin" in await answer.text()
    assert await asked(served, "DELETE", "/new") == 204
    assert not (served.folder / "new").exists()
    assert await asked(served, "DELETE", "/") == 400
    assert served.folder.exists()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "MKCOL", "MOVE", "COPY"])
async def test_a_read_only_storage_refuses_every_change(served: Served, method: str) -> None:
    (served.folder / "a.bin").write_bytes(CONTENT)
    root = "/api/v1/gpu-storages/fixed/files"
    headers = {"Destination": f"{root}/b.bin", "X-Update-Range": "append"}
    path = "/new" if method == "MKCOL" else "/a.bin"
    session = served.api.client.session
    direct = f"http://127.0.0.1:{served.fixed_port}{root}{path}"
    for url, refusal in ((served.url(path, "fixed"), 405), (direct, 403)):
        async with session.request(method, url, data=b"x", headers=headers) as answer:
            assert answer.status == refusal
    assert [each.name for each in served.folder.iterdir()] == ["a.bin"]
    assert (served.folder / "a.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/..%2fsecret",
        "/%2e%2e/secret",
        "/%252e%252e/secret",
        "/sub/../../secret",
        "/..%5csecret",
        "/..\\secret",
        "//secret",
        "/%00/../secret",
        "/%c0%ae%c0%ae/secret",
    ],
)
async def test_no_file_outside_of_the_volume_is_read(served: Served, path: str) -> None:
    (served.folder.parent / "secret").write_bytes(b"very secret")
    received = await exchange(served.api, request("GET", path))
    assert statuses(received) == [400]
    assert b"very secret" not in received


async def test_links_out_of_the_volume_are_not_followed(served: Served) -> None:
    (served.folder.parent / "secret").write_bytes(b"very secret")
    (served.folder / "link").symlink_to("../secret")
    (served.folder / "links").symlink_to("..")
    for path in ("/link", "/links/secret", "/links/"):
        assert await asked(served, "GET", path) == 404
    for path in ("/link", "/links/new"):
        assert await asked(served, "PUT", path, body=b"x") in (403, 404)
    assert not (served.folder.parent / "new").exists()
    assert (served.folder.parent / "secret").read_bytes() == b"very secret"


async def test_an_aborted_upload_leaves_no_file(
    served: Served,
) -> None:
    port = served.api.client.port
    assert port
    for framing, part in (
        (b"Content-Length: 100", b"0123"),
        (b"Transfer-Encoding: chunked", b"4\r\n0123\r\n"),
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("PUT", "/half.bin", framing, body=part))
        await eventually((served.folder / "half.bin").exists)
        writer.transport.abort()
        await eventually((served.folder / "half.bin").exists, not_)


async def test_callers_with_ipv4_and_ipv6_addresses_are_served(dufs: Path, tmp_path: Path) -> None:
    """The test uses loopback addresses in the form of the real ones."""
    assert ANY_ADDRESS == "0.0.0.0,::"
    both = "127.0.0.1,::1"
    with serving(dufs, tmp_path, "models", is_writable=False, address=both) as port:
        for host in both.split(","):
            await answering(port, host)


def test_only_a_writable_file_server_has_flags_for_uploads() -> None:
    fixed = container_of("models", is_writable=False)
    writable = container_of("models", is_writable=True)
    assert not [word for word in fixed["args"] if word.startswith("--allow")]
    assert set(writable["args"]) - set(fixed["args"]) == {"--allow-upload", "--allow-delete"}
    assert fixed["volumeMounts"][0]["readOnly"]
    assert fixed["securityContext"]["readOnlyRootFilesystem"]
