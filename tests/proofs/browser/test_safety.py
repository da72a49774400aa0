"""The console against hostile texts and hostile sites, in a real browser."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpuruntime.api.auth.access import Principal, Role
from gpuruntime.api.auth.browser_origins import BrowserOrigins
from gpuruntime.api.auth.tokens import TokenGuard
from tests.eventually import eventually
from tests.proofs.browser.chromium import PATIENCE_SECONDS, Browser, browsing
from tests.proofs.browser.site import Site, add_unit, cluster_with_each_phase
from tests.rooms.api.http.test_layers import CountingMeter
from tests.rooms.api.service import UNITS, service, unit_order

pytestmark = pytest.mark.cluster

HOSTILE = (
    "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"
    "</td></table><style>*{display:none}</style>\n\nevent: page\ndata: {} javascript:alert(1)"
)
TOKEN = "a-long-and-random-one"
PRINCIPALS = {
    hashlib.sha256(TOKEN.encode()).digest(): Principal(
        name="a", role=Role.TENANT, tenants=frozenset({"a"})
    )
}


async def test_a_hostile_text_is_shown_as_text(site: Site) -> None:
    add_unit(site.cluster, "hostile", "broken", message=HOSTILE, image="<script>owned=1</script>")
    for place in ("", "units"):
        await site.go(place)
        await site.shows("<script>window.owned=1</script>")
    await site.press("hostile")
    await site.tab.until("document.querySelector('dialog').innerText.includes('<script>owned')")
    assert await site.tab.evaluate("window.owned === undefined")
    found = "document.querySelectorAll('#view img, dialog img, body script, style').length"
    assert await site.tab.evaluate(found) == 0


async def test_markup_that_gets_into_the_page_runs_nothing(site: Site) -> None:
    await site.go("")
    await site.tab.evaluate(
        "window.refused = [];"
        "document.addEventListener('securitypolicyviolation', e => refused.push(e.blockedURI));"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"owned=1\">');"
        "const script = document.createElement('script'); script.textContent = 'owned = 1';"
        "document.body.append(script);"
        "const far = document.createElement('script'); far.src = 'http://127.0.0.1:9/x.js';"
        "document.body.append(far)"
    )
    await site.tab.until("refused.filter(each => each === 'inline').length >= 2")
    await site.tab.until("refused.includes('http://127.0.0.1:9/x.js')")
    assert await site.tab.evaluate("window.owned === undefined")
    refused = "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"
    assert await site.tab.evaluate(refused) == "refused"
    policy = "Content Security Policy"
    await eventually(
        lambda: any(policy in each for each in site.tab.faults), within_seconds=PATIENCE_SECONDS
    )
    await site.tab.go("about:blank")  # nothing of the page is logged after it
    site.tab.faults.clear()


@asynccontextmanager
async def another_site() -> AsyncIterator[str]:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>evil</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    async with TestServer(app) as server:
        yield f"http://127.0.0.1:{server.port}/"


async def test_a_page_of_another_site_creates_and_deletes_nothing(browser: Browser) -> None:
    cluster, meter = cluster_with_each_phase(), CountingMeter()
    async with (
        service(cluster, origins=BrowserOrigins(is_local=True), meter=meter) as api,
        another_site() as evil,
    ):
        root = f"http://127.0.0.1:{api.client.port}"
        recover = f"{root}/api/v1/gpu-storages/copy/recover"
        tab = await browser.open(evil)
        await tab.until("document.title === 'evil'")
        meter.counted.clear()
        for call in (
            f"fetch('{root}{UNITS}/ready', {{method: 'DELETE'}})",
            f"fetch('{recover}', {{method: 'POST', mode: 'no-cors'}})",
            f"fetch('{root}{UNITS}', {{method: 'POST', mode: 'no-cors', body: '{{}}'}})",
            f"fetch('{root}{UNITS}')",
            f"fetch('{root}/console/events/units', {{mode: 'no-cors'}})",
        ):
            await tab.evaluate(f"{call}.then(a => a.status, () => 'refused')")
        await tab.evaluate(
            "const form = document.createElement('form'); form.method = 'post';"
            f"form.action = '{recover}';"
            "document.body.append(form); form.submit()"
        )
        await tab.until("document.body.innerText.includes('another origin')")
        # The form's answer reaches the browser before the api has counted it.
        answered = await eventually(
            lambda: [(each["method"], each["code"]) for each in meter.counted],
            lambda answered: answered.count(("POST", "403")) == 3,
            within_seconds=PATIENCE_SECONDS,
        )
        assert ("GET", "200") not in answered
        assert "DELETE" not in {method for method, _ in answered}, "its preflight is refused"
        assert (await api.call("GET", f"{UNITS}/ready")).status == 200


async def test_a_foreign_host_name_that_resolves_to_the_api_is_refused(
    program: Path, tmp_path: Path
) -> None:
    """DNS rebinding gives page and api a common origin, which is not one of ours."""
    rule = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    async with (
        service(cluster_with_each_phase(), origins=BrowserOrigins(is_local=True)) as api,
        browsing(program, tmp_path / "profile", rule) as browser,
    ):
        root = f"http://evil.example:{api.client.port}"
        tab = await browser.open(f"{root}/console/")
        await tab.until("document.getElementById('notice') !== null")
        for method, path in (("GET", UNITS), ("DELETE", f"{UNITS}/ready")):
            asked = f"fetch('{path}', {{method: '{method}'}}).then(answer => answer.status)"
            assert await tab.evaluate(asked) == 403
        assert (await api.call("GET", f"{UNITS}/ready")).status == 200


async def test_a_token_is_requested_and_kept_only_in_the_tab(browser: Browser) -> None:
    cluster = cluster_with_each_phase()
    async with service(cluster, guard=TokenGuard(lambda: PRINCIPALS)) as api:
        tab = await browser.open(f"http://127.0.0.1:{api.client.port}/console/#/units")
        for words, given in (("asks who calls", "wrong"), ("does not know this token", TOKEN)):
            await tab.until(f"document.querySelector('dialog')?.innerText.includes('{words}')")
            await tab.until("document.activeElement.type === 'password'")
            await tab.type(given)
            await tab.press("Enter")
        await tab.until("document.getElementById('connection').innerText === 'Live'")
        await tab.until("document.body.innerText.includes('No unit is like this')")

        order = unit_order(name="mine", tenant="a")
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await api.call("POST", UNITS, order, headers=bearer)).status == 201
        await tab.until("document.body.innerText.includes('mine')")
        assert not await tab.evaluate("document.body.innerText.includes('broken')")
        kept = "[localStorage.length, document.cookie, location.href.includes('random')]"
        assert await tab.evaluate(kept) == [0, "", False]

        await tab.evaluate("document.getElementById('leave').click()")
        await tab.until("document.activeElement.type === 'password'")
        await tab.equals("sessionStorage.length", 0)
        await tab.equals("document.body.innerText.includes('mine')", False)
