"""The ways into a unit that the console offers: a ticket for each press, and none before it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpuruntime.api.tickets.issuer import GatewayOptions
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.addresses import parse_public_url
from gpuruntime.tickets.keys import KeyRing, TicketKey
from gpuruntime.tickets.tokens import TokenType, verify
from tests.proofs.browser.chromium import Browser
from tests.proofs.browser.site import Site, add_unit
from tests.proofs.browser.test_use import CONTRAST, nameless
from tests.rooms.api.service import service
from tests.rooms.operations.cluster import INSTANCE, Cluster, clock

pytestmark = pytest.mark.cluster

RING = KeyRing((TicketKey(id="k1", secret=b"1" * 32),))
TEMPLATE = {"ports": [{"name": "http", "port": 8080}]}
URLS = {"http": f"https://8080--demo-abcdefgh.{'a-long-label.' * 4}example.com"}
ADDRESS = parse_public_url("https://*.units.example.com")
SSH = ("ssh.example.com", 2222)
# Tabs and the clipboard of the test's browser.
RECORDED = (
    "window.opened = []; window.open = (url, name, how) => opened.push([url, name, how]);"
    "window.copied = []; navigator.clipboard.writeText = async text => { copied.push(text); }"
)


@asynccontextmanager
async def dialog_of_a_unit(
    browser: Browser, *, has_exec: bool = True, keys: tuple[str, ...] = ()
) -> AsyncIterator[Site]:
    cluster = Cluster()
    access = {"sshKeys": list(keys)} if keys else {}
    add_unit(cluster, "demo", template=TEMPLATE, access=access)
    status = {"access": {"slug": "demo-abcdefgh", "urls": URLS}}
    path = GPU_UNITS.path(namespace=INSTANCE, name="demo", subresource="status")
    cluster.call("PATCH", path, {"status": status})
    gateway = GatewayOptions(address=ADDRESS, ssh_address=SSH, host_keys=(), has_exec=has_exec)
    async with service(cluster, gateway=gateway, ticket_keys=lambda: RING) as api:
        tab = await browser.open()
        await tab.look(1280, 800)
        site = Site(cluster, api, tab)
        await site.go("units")
        await site.opens("demo")
        await tab.until("document.querySelector('dialog .reach')")
        await tab.evaluate(RECORDED)
        yield site
        assert tab.faults == []
        await tab.go("about:blank")


def entry_in(url: str) -> Any:
    token = parse_qs(urlsplit(url).query)["ticket"][0]
    return verify(token, TokenType.ENTRY, RING, clock().timestamp())


async def test_the_ports_are_shown_with_their_addresses_on_a_phone_too(browser: Browser) -> None:
    async with dialog_of_a_unit(browser) as site:
        shown = "[...document.querySelectorAll('dialog .port')].map(e => [e.closest('div')"
        shown += ".querySelector('dt').innerText, e.querySelector('code').innerText])"
        assert await site.tab.evaluate(shown) == [list(each) for each in URLS.items()]
        await site.tab.look(320, 640)
        assert await site.tab.evaluate("document.documentElement.scrollWidth") <= 320
        wide = "[...document.querySelectorAll('dialog *')].filter(e => e.offsetParent"
        wide += " && e.getBoundingClientRect().right > 320.5).map(e => e.outerHTML.slice(0, 80))"
        assert await site.tab.evaluate(wide) == []
        assert await nameless(site) == []
        for scheme in ("light", "dark"):
            await site.tab.look(1280, 800, scheme=scheme)
            await site.tab.equals(CONTRAST, [])


async def test_the_ways_are_used_by_keyboard_and_keep_the_focus(browser: Browser) -> None:
    async with dialog_of_a_unit(browser) as site:
        names = ("Open http in a new tab", "Terminal in a new tab", "Copy ssh command")
        await site.tab.focus("dialog .port button")
        for count, name in enumerate(names, 1):
            await site.focuses(name)
            await site.tab.press("Enter")
            await site.tab.until(f"opened.length + copied.length === {count}")
            await site.tab.until("!document.querySelector('dialog [aria-busy]')")
            await site.focuses(name)
            await site.tab.press("Tab")
        spoken = "document.querySelector('dialog [role=status]').innerText"
        await site.tab.equals(spoken, "The command is copied.")


async def test_a_port_and_a_terminal_open_in_tabs_of_their_own(browser: Browser) -> None:
    async with dialog_of_a_unit(browser) as site:
        assert await site.tab.evaluate("opened") == []
        await site.press("Open http in a new tab")
        await site.tab.until("opened.length === 1")
        await site.press("Terminal in a new tab")
        await site.tab.until("opened.length === 2")
        opened = json.loads(await site.tab.evaluate("JSON.stringify(opened)"))
    hosts = [urlsplit(url).hostname.partition("--")[0] for url, _, _ in opened]
    assert hosts == ["8080", "terminal"]
    assert {(name, how) for _, name, how in opened} == {("_blank", "noopener")}
    uses = [(entry_in(url).use, entry_in(url).port) for url, _, _ in opened]
    assert uses == [((Use.HTTP,), 8080), ((Use.EXEC,), None)]


async def test_without_keys_the_ssh_command_comes_with_its_password(browser: Browser) -> None:
    async with dialog_of_a_unit(browser) as site:
        await site.press("Copy ssh command")
        await site.press("Copy password")
        await site.tab.until("copied.length === 2")
        command, ticket = await site.tab.evaluate("copied")
        said = await site.tab.evaluate("document.querySelector('.reached').innerText")
    assert command == "ssh -p 2222 demo@ssh.example.com"
    claims = verify(ticket, TokenType.TICKET, RING, clock().timestamp())
    assert claims.use == (Use.SSH,)
    assert command in said
    assert ticket not in said


async def test_with_keys_the_ssh_command_needs_no_password(browser: Browser) -> None:
    key = "ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5AAAAIL7QmkW5cGCbZm7m0T1VnXyOQqBZ9i3Fv4W3sB0o1kqT"
    async with dialog_of_a_unit(browser, keys=(key,)) as site:
        await site.press("Copy ssh command")
        await site.tab.until("copied.length === 1")
        assert not await site.tab.evaluate(
            "document.querySelector('.reached').innerText.includes('password')"
        )


async def test_a_gateway_without_exec_says_so(browser: Browser) -> None:
    async with dialog_of_a_unit(browser, has_exec=False) as site:
        await site.press("Terminal in a new tab")
        await site.tab.until(
            "document.querySelector('dialog [role=alert]').innerText.includes('without exec')"
        )
        assert await site.tab.evaluate("opened") == []


async def test_a_unit_that_no_gateway_reaches_offers_no_way(site: Site) -> None:
    await site.go("units")
    await site.opens("ready")
    await site.tab.until("document.querySelector('dialog .facts')")
    assert await site.tab.evaluate("document.querySelector('.reach')") is None
