"""Requests that other web sites can have an operator's browser send, and legitimate ones."""

from collections.abc import Mapping

import pytest

from gpuruntime.api.auth.browser_origins import BrowserOrigins, is_near, is_of_another_page
from gpuruntime.api.errors import DeniedError
from tests.rooms.api.service import STOCK_UNITS, UNITS, service
from tests.rooms.operations.cluster import Cluster
from tests.row_ids import in_words

HERE = {"Host": "127.0.0.1:8080"}
NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:8080"},
        {"Origin": "HTTP://127.0.0.1:8080"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        # A proxy in front may use another host name than the browser.
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://gpus.example"},
    ],
    ids=in_words,
)
def test_programs_and_own_pages_may_call(headers: Mapping[str, str]) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert not is_of_another_page(method, {**HERE, **headers})


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9090"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9090"},
        {"Sec-Fetch-Site": "something new"},
    ],
    ids=in_words,
)
def test_pages_of_other_origins_are_refused(headers: Mapping[str, str]) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert is_of_another_page(method, {**HERE, **headers})


def test_a_link_from_another_page_passes_and_its_form_does_not() -> None:
    assert not is_of_another_page("GET", {**HERE, **NAVIGATION})
    assert is_of_another_page("POST", {**HERE, **NAVIGATION})


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "LOCALHOST:8080",
        "console.localhost:1",
        "127.0.0.1:8080",
        "10.0.0.1",
        "[::1]:8080",
        "localhost.:8080",
        "api:8080",
        "here",
    ],
)
def test_addresses_and_names_without_a_public_domain_are_near(host: str) -> None:
    assert is_near(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "EVIL.example.",
        "localhost.evil.example",
        "[::1",
        "127.0.0.1.evil.example",
        "evil@localhost.x",
    ],
)
def test_names_with_a_public_domain_are_not_near(host: str) -> None:
    assert not is_near(host)


def test_foreign_host_names_are_refused_only_by_a_local_process() -> None:
    rebound = {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"}
    BrowserOrigins().demand("DELETE", rebound)
    with pytest.raises(DeniedError, match="allowUnauthenticated"):
        BrowserOrigins(is_local=True).demand("DELETE", rebound)


@pytest.mark.looptime
async def test_another_site_changes_nothing_through_an_operators_browser() -> None:
    cluster = Cluster()
    cluster.add_stock(1)
    foreign = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    async with service(cluster, origins=BrowserOrigins(is_local=True)) as api:
        assert (await api.create(name="demo")).status == 201
        for method, path in (
            ("DELETE", f"{UNITS}/demo"),
            ("POST", "/api/v1/gpu-storages/models/recover"),
            ("POST", "/api/v1/serverless/dead-letters/1/redrive"),
            ("GET", UNITS),
            ("GET", "/console/events/units"),
        ):
            for headers in (foreign, {"Host": "evil.example"}):
                async with api.client.request(method, path, headers=headers) as response:
                    assert response.status == 403, (method, path, headers)
                    assert (await response.json())["error"]["code"] == "forbidden"
        refused = await api.call("POST", STOCK_UNITS, {}, headers=foreign)
        assert (refused.status, refused.code) == (403, "forbidden")
        own = f"http://127.0.0.1:{api.client.port}"
        assert (await api.call("DELETE", f"{UNITS}/demo", headers={"Origin": own})).status == 204
