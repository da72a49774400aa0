"""Pages of one tenant's unit against another tenant's unit, in a browser with sessions of both."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
from structlog.testing import capture_logs

from tests.proofs.browser.chromium import Browser, Tab, browsing
from tests.proofs.browser.tenants import (
    DOMAIN,
    SIBLINGS,
    Tenants,
    on_localhost,
    on_siblings,
    seen_by,
)

pytestmark = pytest.mark.cluster

INCLUDE = "credentials: 'include'"
# What a page of alpha tries at TO, an address of beta; the outcome; and the gateway's refusal.
# `ticket_missing` means that the browser itself sent no session along.
REQUESTS = {
    "read": ("fetch('TO')", "refused", "ticket_missing"),
    "read with cookies": (f"fetch('TO', {{{INCLUDE}}})", "refused", "another_origin"),
    "read without CORS": (f"fetch('TO', {{{INCLUDE}, mode: 'no-cors'}})", "", "another_origin"),
    "write": ("fetch('TO', {method: 'POST', body: 'x'})", "refused", "ticket_missing"),
    "write with cookies": (
        f"fetch('TO', {{{INCLUDE}, method: 'POST', body: 'x'}})",
        "refused",
        "another_origin",
    ),
    "write without CORS": (
        f"fetch('TO', {{{INCLUDE}, method: 'POST', body: 'x', mode: 'no-cors'}})",
        "",
        "another_origin",
    ),
    "delete": (f"fetch('TO', {{{INCLUDE}, method: 'DELETE'}})", "refused", "ticket_missing"),
    "image": ("load('img', 'src', 'TO')", "refused", "another_origin"),
    "script": ("load('script', 'src', 'TO')", "refused", "another_origin"),
    "frame": ("load('iframe', 'src', 'TO')", "loaded", "another_origin"),
    "WebSocket": ("connect('TO')", "refused", "another_origin"),
}
HELPERS = """
window.load = (name, attribute, to) => new Promise((loaded, refused) => {
  const e = document.createElement(name);
  e.onload = () => loaded({type: 'loaded'});
  e.onerror = refused;
  e[attribute] = to;
  document.body.append(e);
});
window.connect = to => new Promise((open, refused) => {
  const socket = new WebSocket(to.replace(/^http/, 'ws'));
  socket.onopen = () => open({type: 'open'});
  socket.onerror = refused;
});
"""
# What a page reads of a window of another origin.
READ = "(() => { try { return [w.document.title]; } catch (e) { return e.name; } })()"


@attrs.frozen
class Scene:
    """The tabs of the hostile unit alpha and of the unit beta, which belongs to another tenant."""

    tenants: Tenants
    alpha: Tab
    beta: Tab
    origin: str


@pytest.fixture
async def scene(program: Path, tmp_path: Path) -> AsyncIterator[Scene]:
    async with (
        browsing(program, tmp_path / "profile", *SIBLINGS) as browser,
        on_siblings(browser, tmp_path) as tenants,
    ):
        await tenants.add("alpha", "a")
        await tenants.add("beta", "b")
        beta = await tenants.visit("beta")
        alpha = await tenants.visit("alpha")
        await alpha.evaluate(HELPERS)
        yield Scene(tenants, alpha, beta, await beta.evaluate("location.origin"))


def paths(seen: list[dict[str, str]]) -> set[str]:
    return {each["path"] for each in seen}


async def test_a_page_neither_reads_nor_writes_anothers_unit(scene: Scene) -> None:
    for name, (expression, outcome, refusal) in REQUESTS.items():
        to = f"{scene.origin}/attack"
        with capture_logs() as logs:
            got = await scene.alpha.evaluate(
                f"{expression.replace('TO', to)}.then(a => a.body ? 'read' : a.status ? 'read'"
                " : a.type === 'opaque' ? '' : a.type, () => 'refused')"
            )
        codes = [each["code"] for each in logs if each["event"] == "request refused"]
        assert (got, codes) == (outcome, [refusal]), name
    assert "/attack" not in paths(await seen_by(scene.beta))
    own = await scene.beta.evaluate("fetch('/own', {method: 'POST'}).then(a => a.status)")
    assert own == 200, "the unit's own page goes on"
    assert "/own" in paths(await seen_by(scene.beta))


async def test_a_form_of_another_unit_is_refused_in_plain_words(scene: Scene) -> None:
    await scene.alpha.evaluate(
        "const form = document.createElement('form'); form.method = 'post';"
        f"form.action = '{scene.origin}/attack'; document.body.append(form); form.submit()"
    )
    await scene.alpha.until(
        "document.querySelector('h1')?.textContent === 'Another site asked for this'"
    )
    assert "/attack" not in paths(await seen_by(scene.beta))


async def test_a_page_does_not_script_a_window_or_frame_of_another_unit(scene: Scene) -> None:
    alpha = scene.alpha
    await alpha.send(
        "Runtime.evaluate",
        expression=f"window.w = open('{scene.origin}/victim')",
        userGesture=True,
    )
    victim = await scene.tenants.browser.popup(f"{scene.origin}/victim")
    await victim.until("document.title === 'beta'")
    await victim.evaluate("window.got = []; onmessage = e => got.push([e.origin, e.data])")
    await alpha.until(f"{READ} === 'SecurityError'")
    assert await alpha.evaluate(f"document.domain = '{DOMAIN}', document.domain") == DOMAIN, (
        "the page gives up a part of its origin, but the other one does not"
    )
    assert await alpha.evaluate(READ) == "SecurityError"
    stored = "(() => { try { return w.localStorage.length; } catch (e) { return e.name; } })()"
    assert await alpha.evaluate(stored) == "SecurityError"
    await alpha.evaluate("w.postMessage('first', location.origin)")
    await alpha.evaluate("w.postMessage('second', '*')")
    await victim.until("got.length === 1")
    own = await alpha.evaluate("location.origin")
    assert json.loads(await victim.evaluate("JSON.stringify(got)")) == [[own, "second"]]

    await alpha.evaluate(f"load('iframe', 'src', '{scene.origin}/framed')")
    assert await alpha.evaluate("document.querySelector('iframe').contentDocument") is None
    assert "/framed" not in paths(await seen_by(scene.beta))


async def test_a_page_neither_reads_nor_replaces_cookies_of_another_unit(scene: Scene) -> None:
    alpha, beta = scene.alpha, scene.beta
    assert await alpha.evaluate("document.cookie") == "of=alpha"
    assert await beta.evaluate("document.cookie") == "of=beta"
    for forged in (
        f"__Host-gpuruntime=forged; Domain={DOMAIN}; Path=/; Secure",
        f"__host-gpuruntime=forged; Domain={DOMAIN}; Path=/; Secure",
        f"gpuruntime=forged; Domain={DOMAIN}; Path=/; Secure",
        f"=__Host-gpuruntime=forged; Domain={DOMAIN}; Path=/; Secure",
    ):
        await alpha.evaluate(f"document.cookie = {forged!r}")
    assert await beta.evaluate("fetch('/after').then(a => a.status)") == 200
    for tab, own in ((alpha, "of=alpha"), (beta, "of=beta")):
        cookies = [each["cookie"] for each in await seen_by(tab)]
        assert not any("gpuruntime=ey" in each for each in cookies), "a session reaches no unit"
        others = {"of=alpha", "of=beta"} - {own}
        assert not any(other in each for each in cookies for other in others)


REGISTER = "navigator.serviceWorker.register('/worker.js').then(() => 'registered', e => e.name)"


async def test_a_service_worker_of_a_deleted_unit_meets_nobody(
    program: Path, tmp_path: Path
) -> None:
    async with (
        browsing(program, tmp_path / "profile", *SIBLINGS) as browser,
        on_siblings(browser, tmp_path) as tenants,
    ):
        await tenants.add("demo", "a")
        old = await tenants.visit("demo")
        assert await old.evaluate(REGISTER) == "registered"
        await old.until("navigator.serviceWorker.controller !== null")
        earlier = await old.evaluate("location.origin")
        await old.go(f"{earlier}/page")
        await old.until("document.title === 'taken by demo'")
        await tenants.client.units.delete("demo")
        await tenants.add("demo", "b")

        new = await tenants.visit("demo")
        assert await new.evaluate("location.origin") != earlier
        found = "navigator.serviceWorker.getRegistrations().then(all => all.length)"
        assert await new.evaluate(found) == 0
        assert await new.evaluate("navigator.serviceWorker.controller") is None
        assert await new.evaluate("fetch('/page').then(a => a.text())") != "taken by demo"
        # The worker lives on at its own address, from which it reaches no unit.
        await old.go(f"{earlier}/again")
        await old.until("document.title === 'taken by demo'")
        assert await old.evaluate("fetch('/direct').then(a => a.status)") == 404
        to = f"{await new.evaluate('location.origin')}/direct?attack"
        assert (
            await old.evaluate(f"fetch('{to}').then(() => 'read', () => 'refused')") == "refused"
        )
        assert "/direct?attack" not in paths(await seen_by(new))


async def test_at_a_name_that_is_used_again_no_service_worker_is_registered(
    browser: Browser,
) -> None:
    async with on_localhost(browser) as tenants:
        await tenants.add("demo", "a")
        tab = await tenants.visit("demo")
        slug = await tab.evaluate("location.host")
        plain = f"8080--demo.{slug.partition('.')[2]}"
        await tab.go((await tenants.url("demo")).replace(slug, plain))
        await tab.until(f"location.host === '{plain}' && document.title === 'demo'")
        assert await tab.evaluate(REGISTER) == "TypeError"
        found = "navigator.serviceWorker.getRegistrations().then(all => all.length)"
        assert await tab.evaluate(found) == 0
        assert await tab.evaluate("fetch('/worker.js').then(a => a.status)") == 200
        await tab.go(await tenants.url("demo"))
        await tab.until(f"location.host === '{slug}' && document.title === 'demo'")
        assert await tab.evaluate(REGISTER) == "registered"
