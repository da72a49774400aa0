"""Requests through a gateway to a real server: what passes, what does not, and what is said."""

import asyncio
import json
from typing import Any, Final

import aiohttp
import attrs
import pytest
from aiohttp import web

from gpuruntime.models.kinds.templates import Port
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.tokens import TokenType
from tests.rooms.gateway.service import (
    CLUSTER_IP,
    DEMO,
    DOMAIN,
    gateway,
    host_of,
    service_of,
    upstream,
)
from tests.rooms.gateway.visitors import ticket, unit

BEARER: Final = {"Authorization": f"Bearer {ticket(DEMO)}"}
SESSION: Final = {"Cookie": f"__Host-gpuruntime={ticket(DEMO, TokenType.SESSION)}"}
OWN: Final = f"https://{host_of()}"
# A port of loopback at which nothing listens.
NOWHERE: Final = 1
PROGRAMS: Final = f"gateway.{DOMAIN}"


async def echo(request: web.Request) -> web.Response:
    """Answer with the request as the unit received it."""
    return web.json_response(
        {
            "method": request.method,
            "target": request.raw_path,
            "headers": [[name, value] for name, value in request.headers.items()],
            "body": (await request.read()).decode(),
        }
    )


def seen(answer: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in answer["headers"]}


async def error_in(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await answer.read())["error"]
    return found


@pytest.mark.parametrize(
    ("host", "path", "headers"),
    [
        pytest.param(host_of(), "/a%2Fb/../c?x=%20&y", BEARER, id="a ticket"),
        pytest.param(host_of(port="http"), "/a%2Fb/../c?x=%20&y", BEARER, id="the port's name"),
        pytest.param(host_of(), "/a%2Fb/../c?x=%20&y", SESSION, id="a session"),
        pytest.param(
            PROGRAMS, "/units/demo/ports/8080/a%2Fb/../c?x=%20&y", BEARER, id="a program's path"
        ),
        pytest.param(
            PROGRAMS, "/units/demo/ports/http/a%2Fb/../c?x=%20&y", BEARER, id="by the port's name"
        ),
    ],
)
async def test_a_request_reaches_the_unit_with_its_target_unchanged(
    host: str, path: str, headers: dict[str, str]
) -> None:
    async with upstream(echo) as port, gateway(port) as caller:
        raw = await caller.raw(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n".encode()
            + "".join(f"{k}: {v}\r\n" for k, v in headers.items()).encode()
            + b"\r\n"
        )
        assert caller.world.mapped == [(CLUSTER_IP, 8080)]
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), raw
    assert json.loads(body)["target"] == "/a%2Fb/../c?x=%20&y"


async def test_bodies_pass_in_both_directions() -> None:
    async with upstream(echo) as port, gateway(port) as caller:
        async with caller.request("POST", "/", headers=BEARER, data=b"x" * 300_000) as answer:
            assert answer.status == 200
            assert len((await answer.json())["body"]) == 300_000

        async def pieces() -> Any:
            for _ in range(3):
                yield b"yy"

        async with caller.request("PUT", "/", headers=BEARER, data=pieces()) as answer:
            assert (await answer.json())["body"] == "yyyyyy"


async def test_the_unit_receives_no_token_and_no_word_of_the_caller_about_itself() -> None:
    token = ticket(DEMO)
    headers = {
        "Authorization": f"Bearer {token}",
        "Cookie": "a=1; __Host-gpuruntime=x; gpuruntime=y; b=2",
        "Forwarded": "for=1.2.3.4",
        "X-Forwarded-For": "1.2.3.4",
        "X-Forwarded-Proto": "gopher",
        "X-Forwarded-Host": "evil.org",
        "X_Forwarded_For": "1.2.3.4",
        "X-Forwarded-Prefix": "/admin",
        "X-Real-IP": "1.2.3.4",
        "Proxy": "http://evil.org",
        "Connection": "keep-alive, X-Hop, Host",
        "X-Hop": "secret",
        "Proxy-Authorization": "Basic x",
        "TE": "trailers",
        "X-Own": "kept",
    }
    async with (
        upstream(echo) as port,
        gateway(port) as caller,
        caller.request("GET", "/", headers=headers) as answer,
    ):
        found = seen(await answer.json())
    assert token not in json.dumps(found)
    assert found["cookie"] == "a=1; b=2"
    assert found["host"] == host_of()
    assert found["x-forwarded-for"] == "127.0.0.1"
    assert found["x-forwarded-proto"] == "https"
    assert found["x-forwarded-host"] == host_of()
    assert found["x-own"] == "kept"
    gone = {"authorization", "forwarded", "x-hop", "proxy-authorization", "te", "proxy"}
    # A server behind CGI reads both names of each as one.
    gone |= {"x_forwarded_for", "x-forwarded-prefix", "x-real-ip"}
    assert not gone & found.keys()


async def test_authorization_of_the_unit_itself_passes_beside_a_session() -> None:
    headers = {**SESSION, "Authorization": "Bearer of-the-unit"}
    async with upstream(echo) as port, gateway(port) as caller:
        async with caller.request("GET", "/", headers=headers) as answer:
            assert seen(await answer.json())["authorization"] == "Bearer of-the-unit"
        headers["Authorization"] = f"Bearer {ticket(unit('other'))}"
        async with caller.request("GET", "/", headers=headers) as answer:
            assert (await error_in(answer))["reason"] == "unit"


async def test_programs_send_and_get_no_cookie_and_their_answers_run_no_script() -> None:
    async def serve(request: web.Request) -> web.Response:
        answer = await echo(request)
        answer.headers["Content-Security-Policy"] = "default-src *"
        answer.set_cookie("a", "1")
        return answer

    async with upstream(serve) as port, gateway(port) as caller:
        path = "/units/demo/ports/8080/"
        headers = {**BEARER, "Cookie": "a=1"}
        async with caller.request("GET", path, host=PROGRAMS, headers=headers) as answer:
            assert answer.status == 200
            assert "cookie" not in seen(await answer.json())
            assert answer.headers.getall("Content-Security-Policy") == ["sandbox"]
            assert "Set-Cookie" not in answer.headers
        async with caller.request("GET", path, host=PROGRAMS, headers=SESSION) as answer:
            assert (answer.status, (await error_in(answer))["code"]) == (401, "ticket_missing")


async def test_the_caller_receives_no_header_that_affects_another_origin() -> None:
    async def serve(_: web.Request) -> web.Response:
        answer = web.Response(status=302, headers={"Location": "https://elsewhere.org/"})
        for value in (
            "a=1; Domain=units.example.com; Path=/",
            "b=2; domain=.example.com;HttpOnly",
            "__Host-gpuruntime=stolen; Path=/; Secure",
            " gpuruntime =stolen",
            "=gpuruntime=stolen",
            "c=3",
        ):
            answer.headers.add("Set-Cookie", value)
        answer.headers.update(
            {
                "Strict-Transport-Security": "max-age=1; includeSubDomains",
                "Clear-Site-Data": '"*"',
                "Alt-Svc": 'h2="evil:443"',
                "Service-Worker-Allowed": "/",
                "X-Accel-Redirect": "/internal",
                "X-Sendfile": "/etc/passwd",
                "Access-Control-Allow-Origin": "https://evil.org",
                "Access-Control-Allow-Credentials": "true",
                "X-Own": "kept",
            }
        )
        return answer

    async with (
        upstream(serve) as port,
        gateway(port) as caller,
        caller.request("GET", "/", headers=BEARER) as answer,
    ):
        assert (answer.status, answer.headers["Location"]) == (302, "https://elsewhere.org/")
        assert answer.headers.getall("Set-Cookie") == [
            "a=1; Path=/",
            "b=2;HttpOnly",
            "c=3",
        ]
        assert answer.headers["X-Own"] == "kept"
        for name in (
            "Strict-Transport-Security",
            "Clear-Site-Data",
            "Alt-Svc",
            "Service-Worker-Allowed",
            "X-Accel-Redirect",
            "X-Sendfile",
            "Access-Control-Allow-Origin",
            "Access-Control-Allow-Credentials",
        ):
            assert name not in answer.headers


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        pytest.param("GET", {}, 200, id="a read without any origin"),
        pytest.param("POST", {}, 403, id="a write without any origin"),
        pytest.param("POST", {"Origin": OWN}, 200, id="a write of the own page"),
        pytest.param("POST", {"Sec-Fetch-Site": "same-origin"}, 200, id="the own page, no Origin"),
        pytest.param("POST", {"Sec-Fetch-Site": "none"}, 200, id="the address bar"),
        pytest.param("POST", {"Origin": "null"}, 403, id="a sandboxed page"),
        pytest.param("POST", {"Origin": f"http://{host_of()}"}, 403, id="another scheme"),
        pytest.param("POST", {"Origin": f"{OWN}:8443"}, 403, id="another port"),
        pytest.param(
            "POST", {"Origin": f"https://{host_of(unit('other'))}"}, 403, id="another unit"
        ),
        pytest.param(
            "POST", {"Origin": OWN, "Sec-Fetch-Site": "same-site"}, 403, id="two that disagree"
        ),
        pytest.param("DELETE", {"Sec-Fetch-Site": "same-site"}, 403, id="a sibling"),
        pytest.param("GET", {"Sec-Fetch-Site": "same-site"}, 403, id="an image of a sibling"),
        pytest.param("GET", {"Origin": "https://evil.org"}, 403, id="a fetch of a stranger"),
        pytest.param(
            "OPTIONS", {"Origin": "https://evil.org"}, 403, id="the preflight of a stranger"
        ),
        pytest.param(
            "GET",
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            200,
            id="a link",
        ),
        pytest.param(
            "POST",
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "null"},
            403,
            id="a form of a stranger",
        ),
        pytest.param(
            "GET",
            {
                "Sec-Fetch-Site": "same-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "iframe",
            },
            403,
            id="a frame of a sibling",
        ),
    ],
)
async def test_a_session_is_used_by_its_own_origin_alone(
    method: str, headers: dict[str, str], status: int
) -> None:
    async with (
        upstream(echo) as port,
        gateway(port) as caller,
        caller.request(method, "/", headers={**SESSION, **headers}) as answer,
    ):
        assert answer.status == status
        if status == 403:
            assert "another_origin" in await answer.text()


async def test_a_ticket_is_used_from_any_origin() -> None:
    async with upstream(echo) as port, gateway(port) as caller:
        headers = {**BEARER, "Origin": "https://console.example.com"}
        async with caller.request("POST", "/", headers=headers) as answer:
            assert answer.status == 200


async def test_an_undeclared_port_is_not_reached() -> None:
    """Not even with a ticket for it: the Service has it, but the unit's spec does not."""
    narrow = attrs.evolve(
        DEMO,
        spec=attrs.evolve(
            DEMO.spec,
            template=attrs.evolve(DEMO.spec.template, ports=(Port(name="metrics", port=9100),)),
        ),
    )
    async with upstream(echo) as port, gateway(port, narrow) as caller:
        caller.world.serve(narrow, service_of(DEMO))
        async with caller.request("GET", "/", headers=BEARER) as answer:
            assert (await error_in(answer))["reason"] == "port"
        assert caller.world.mapped == []


@pytest.mark.parametrize(
    ("service", "words"),
    [
        pytest.param(service_of(DEMO, uid="another"), "no address yet", id="another's Service"),
        pytest.param(service_of(DEMO, address="None"), "no address yet", id="a headless Service"),
        pytest.param(
            service_of(DEMO, address="evil.example.com"), "no address yet", id="a name, no address"
        ),
        pytest.param(
            service_of(attrs.evolve(DEMO, spec=unit(ports=(Port(name="a", port=1),)).spec)),
            "is not served yet",
            id="without the port",
        ),
    ],
)
async def test_the_address_is_the_cluster_ip_of_the_units_own_service(
    service: Any, words: str
) -> None:
    async with upstream(echo) as port, gateway(port) as caller:
        caller.world.serve(DEMO, service)
        async with caller.request("GET", "/", headers=BEARER) as answer:
            assert answer.status == 502
            assert words in (await error_in(answer))["message"]
        assert caller.world.mapped == []


async def test_a_simulated_unit_says_so() -> None:
    async with gateway(None) as caller, caller.request("GET", "/", headers=BEARER) as answer:
        assert answer.status == 502
        assert "simulated" in (await error_in(answer))["message"]


async def test_a_unit_at_which_nothing_listens_is_a_fault_of_the_upstream() -> None:
    async with gateway(NOWHERE) as caller, caller.request("GET", "/", headers=BEARER) as answer:
        assert answer.status == 502
        found = await error_in(answer)
        assert found["code"] == "upstream_fault"
        assert "port 8080 of unit demo cannot be reached" in found["message"]


async def test_a_use_other_than_http_is_refused() -> None:
    only_exec = {"Authorization": f"Bearer {ticket(DEMO, use=(Use.EXEC,))}"}
    async with gateway(None) as caller, caller.request("GET", "/", headers=only_exec) as answer:
        assert (answer.status, (await error_in(answer))["reason"]) == (403, "use")


async def test_a_revocation_ends_a_request_in_progress() -> None:
    over = asyncio.Event()

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await over.wait()
        return response

    async with upstream(serve) as port, gateway(port) as caller:
        async with caller.request("GET", "/", headers=BEARER) as answer:
            assert await answer.content.readexactly(5) == b"first"
            caller.world.put(unit("demo", generation=1))
            with pytest.raises(aiohttp.ClientError):
                await answer.read()
        assert len(caller.world.connections) == 0
        over.set()


async def test_a_replica_that_stops_is_not_asked_again() -> None:
    """The next request is on a connection of its own, and so reaches another replica."""
    async with upstream(echo) as port, gateway(port) as caller:
        await caller.world.connections.drain()
        async with caller.request("GET", "/", headers=BEARER) as answer:
            assert answer.status == 503
            assert answer.headers["Connection"] == "close"


async def test_events_pass_as_they_come() -> None:
    taken = asyncio.Event()

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await taken.wait()
        await response.write(b"data: 2\n\n")
        return response

    async with (
        upstream(serve) as port,
        gateway(port) as caller,
        caller.request("GET", "/", headers=BEARER) as answer,
    ):
        assert await answer.content.readuntil(b"\n\n") == b"data: 1\n\n"
        taken.set()
        assert await answer.read() == b"data: 2\n\n"


async def test_a_service_worker_is_registered_only_where_no_later_unit_meets_it() -> None:
    headers = {**BEARER, "Service-Worker": "script"}
    async with upstream(echo) as port, gateway(port, plainHosts=True) as caller:
        for host, status in ((f"8080--demo.{DOMAIN}", 404), (host_of(), 200)):
            async with caller.request("GET", "/sw.js", host=host, headers=headers) as answer:
                assert answer.status == status


async def test_plain_hosts_are_served_only_if_they_are_configured() -> None:
    async with upstream(echo) as port:
        for has_names, status in ((True, 200), (False, 403)):
            async with gateway(port, plainHosts=has_names) as caller:
                host = f"8080--demo.{DOMAIN}"
                async with caller.request("GET", "/", host=host, headers=BEARER) as answer:
                    assert answer.status == status
