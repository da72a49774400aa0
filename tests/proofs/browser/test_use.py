"""The console in a real browser: its contents, its accessibility, and its use by keyboard."""

import asyncio
from importlib.resources import files
from typing import Any

import pytest

from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.proofs.browser.site import LONG, PLACES, Site, add_unit
from tests.rooms.api.service import POOLS, UNITS, WELL
from tests.rooms.operations.cluster import INSTANCE

pytestmark = pytest.mark.cluster

CANARY = "canary4711"
SECRETS = "/api/v1/secrets"
CONTRAST = (files("tests.proofs.browser") / "contrast.js").read_text()
NAMED = frozenset({"button", "link", "textbox", "searchbox", "combobox", "spinbutton", "checkbox"})
OPENERS = (("units", "New unit"), ("units", "ready"), ("units", "Delete unit broken"))
MANY = 10_000


async def test_the_console_shows_objects_and_failures(site: Site) -> None:
    await site.go("")
    await site.shows("3 available, 1 progressing")
    await site.shows("no weights in /data")
    await site.go("units")
    await site.shows("Suspended")
    rows = await site.tab.evaluate("document.querySelectorAll('tbody tr').length")
    assert rows == 5
    spoken = await site.tab.evaluate(
        "document.querySelector('[data-key=ready] .timeline').ariaLabel"
    )
    assert "ready after 500 ms" in spoken


async def test_changes_appear_without_a_reload_and_keep_the_focus(site: Site) -> None:
    await site.go("units")
    await site.tab.evaluate("document.querySelector('tr[data-key=ready] .name').focus()")
    add_unit(site.cluster, "another")
    await site.shows("another")
    path = GPU_UNITS.path(namespace=INSTANCE, name="ready", subresource="status")
    site.cluster.call("PATCH", path, {"status": {"nodeName": "node-9"}})
    await site.shows("node-9")
    assert await site.focused() == "ready"
    site.cluster.call("DELETE", GPU_UNITS.path(namespace=INSTANCE, name="another"))
    await site.tab.until("!document.querySelector('tr[data-key=another]')")


async def test_a_unit_is_created_and_deleted_by_keyboard(site: Site) -> None:
    tab = site.tab
    await site.go("units")
    for _ in range(20):
        await tab.press("Tab")
        if await site.focused() == "New unit":
            break
    await tab.press("Enter")
    assert (await site.focused()).startswith("Name")
    for text in ("typed", "g1.1", "python:3.12"):
        await tab.type(text)
        await tab.press("Tab")
    await tab.press("Enter")
    await tab.until("document.activeElement.textContent === 'Create unit'")
    review = await tab.evaluate("document.querySelector('dialog').innerText")
    assert "typed" in review
    assert "python:3.12" in review
    assert (await site.api.call("GET", f"{UNITS}/typed")).status == 404
    await tab.press("Enter")
    await tab.until("!document.querySelector('dialog')")
    assert await site.focused() == "New unit"
    assert await tab.evaluate("document.getElementById('said').textContent") == (
        "Unit typed is created."
    )
    await tab.until("document.querySelector('tr[data-key=typed]')")

    await tab.evaluate("document.querySelector('tr[data-key=typed] .acts button').focus()")
    await tab.press("Enter")
    assert await site.focused() == "Cancel"
    await tab.press("Tab")
    await tab.press(" ")
    await tab.until("!document.querySelector('tr[data-key=typed]')")
    assert (await site.api.call("GET", f"{UNITS}/typed")).status == 404
    assert await tab.evaluate("document.activeElement.closest('main') !== null")


async def test_a_secret_is_stored_and_deleted_and_its_value_is_never_shown(site: Site) -> None:
    tab = site.tab
    await site.go("secrets")
    await site.shows("There is no secret yet.")
    await tab.evaluate(
        "[...document.querySelectorAll('button')].find((b) => b.innerText === 'New secret')"
        ".focus()"
    )
    await tab.press("Enter")
    for text in ("hub", "token", CANARY):
        await tab.type(text)
        await tab.press("Tab")
    await tab.press("Enter")
    await tab.until("document.activeElement.textContent === 'Store secret'")
    assert "token: not shown" in await tab.evaluate("document.querySelector('dialog').innerText")
    await tab.press("Enter")
    await tab.until("document.querySelector('tr[data-key=hub]')")
    assert CANARY not in await tab.evaluate("document.documentElement.outerHTML")
    assert [each["name"] for each in (await site.api.call("GET", SECRETS)).data] == ["hub"]
    await tab.evaluate("document.querySelector('tr[data-key=hub] .acts button').focus()")
    await tab.press("Enter")
    assert await site.focused() == "Cancel"
    await tab.press("Tab")
    await tab.press(" ")
    await tab.until("!document.querySelector('tr[data-key=hub]')")
    assert (await site.api.call("GET", SECRETS)).data == []


async def test_a_dialog_traps_the_focus_and_returns_it(site: Site) -> None:
    tab = site.tab
    await site.go("pools")
    await site.press("New pool")
    outside = "(e => e !== document.body && !e.closest('dialog'))(document.activeElement)"
    for is_shifted in (False, True):
        for _ in range(14):
            await tab.press("Tab", is_shifted=is_shifted)
            assert not await tab.evaluate(outside)
    await tab.press("Escape")
    await tab.until("!document.querySelector('dialog')")
    assert await site.focused() == "New pool"


async def test_a_refusal_is_shown_in_the_dialog_and_can_be_corrected(site: Site) -> None:
    tab = site.tab
    await site.go("pools")
    await site.press("New pool")
    await tab.press("Enter")
    await tab.until("document.querySelector('dialog [role=alert]').innerText.includes('Spec')")
    assert await tab.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    await tab.type("g2.1")
    await tab.evaluate("document.querySelector('[name=memory]').value = 'lots'")
    await tab.press("Enter")
    await tab.until("document.activeElement.textContent === 'Create pool'")
    await tab.press("Enter")
    await tab.until("document.querySelector('dialog [role=alert]').innerText.includes('memory')")
    await site.press("Back")
    await tab.evaluate("document.querySelector('[name=memory]').value = '1Gi'")
    await tab.press("Enter")
    await tab.until("document.activeElement.textContent === 'Create pool'")
    await tab.press("Enter")
    await site.shows("g2.1")
    (pool,) = (await site.api.call("GET", POOLS)).data
    assert (pool["specName"], pool["memory"], pool["replicas"]) == ("g2.1", "1Gi", 2)


async def test_a_phone_needs_no_horizontal_scrolling(site: Site) -> None:
    await site.tab.look(320, 640)
    for place in PLACES:
        await site.go(place)
        await assert_narrow(site, place)
    for place, opener in OPENERS:
        await site.go(place)
        await site.press(opener)
        await site.tab.until("document.querySelector('dialog')")
        await assert_narrow(site, opener)
        await site.tab.press("Escape")


async def assert_narrow(site: Site, what: str) -> None:
    wide = (
        "[...document.querySelectorAll('body *')].filter(e => e.offsetParent"
        " && !e.closest('.said, thead, .skip') && e.getBoundingClientRect().right > 320.5)"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert await site.tab.evaluate("document.documentElement.scrollWidth") <= 320, what
    assert await site.tab.evaluate(wide) == [], what


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_has_enough_contrast(site: Site, scheme: str) -> None:
    await site.tab.look(1280, 800, scheme=scheme)
    for place in PLACES:
        await site.go(place)
        assert await site.tab.evaluate(CONTRAST) == [], place
    for place, opener in OPENERS:
        await site.go(place)
        await site.press(opener)
        await site.tab.until("document.querySelector('dialog')")
        assert await site.tab.evaluate(CONTRAST) == [], opener
        await site.tab.press("Escape")


async def test_every_control_has_a_name_and_every_place_a_heading(site: Site) -> None:
    for place in PLACES:
        await site.go(place)
        assert await site.tab.evaluate("document.querySelectorAll('h1').length") == 1
        assert await nameless(site) == [], place
    for place, opener in OPENERS:
        await site.go(place)
        await site.press(opener)
        await site.tab.until("document.querySelector('dialog')")
        assert await nameless(site) == [], opener
        await site.tab.press("Escape")


async def nameless(site: Site) -> list[Any]:
    tree = await site.tab.send("Accessibility.getFullAXTree")
    return [
        node
        for node in tree["nodes"]
        if node.get("role", {}).get("value") in NAMED and not node.get("name", {}).get("value")
    ]


async def test_reduced_motion_is_respected(site: Site) -> None:
    await site.go("units")
    length = "getComputedStyle(document.querySelector('.timeline span')).transitionDuration"
    assert await site.tab.evaluate(length) == "0.25s"
    await site.tab.prefer(motion="reduce")
    assert await site.tab.evaluate(length) == "0s"


async def test_the_focused_element_has_an_outline(site: Site) -> None:
    await site.go("units")
    for _ in range(15):
        await site.tab.press("Tab")
        outline = await site.tab.evaluate(
            "(s => [s.outlineStyle, parseFloat(s.outlineWidth)])"
            "(getComputedStyle(document.activeElement))"
        )
        assert outline[0] != "none", await site.focused()
        assert outline[1] >= 1


async def test_an_unreachable_cluster_is_shown_until_it_returns(site: Site) -> None:
    await site.go("units")
    site.api.connection = ClusterLink(error="connection refused", is_synced=True)
    await site.tab.until("document.getElementById('notice').innerText.includes('refused')")
    assert await site.tab.evaluate("document.getElementById('connection').innerText") == "Not live"
    await site.shows("ready")
    site.api.connection = WELL
    await site.tab.until("document.getElementById('connection').innerText === 'Live'")
    assert await site.tab.evaluate("document.getElementById('notice').hidden")


async def test_ten_thousand_units_keep_the_pages_responsive(site: Site) -> None:
    site.cluster.add_stock(MANY, is_ready=False)
    tab = site.tab
    await site.go("stock")
    await tab.until("document.querySelectorAll('tbody tr').length === 50")
    await tab.evaluate(
        "window.longest = 0; new PerformanceObserver(list => list.getEntries().forEach("
        "e => { longest = Math.max(longest, e.duration); })).observe({type: 'longtask'})"
    )
    first = await tab.evaluate("document.querySelector('tbody tr').dataset.key")
    for _ in range(3):
        await site.press("Next")
        await tab.until(f"document.querySelector('tbody tr').dataset.key !== '{first}'")
        first = await tab.evaluate("document.querySelector('tbody tr').dataset.key")
        await tab.until("document.querySelectorAll('tbody tr').length === 50")
    for number in range(200):
        add_unit(site.cluster, f"busy-{number}")
        await asyncio.sleep(0.005)
    assert await tab.evaluate("document.querySelectorAll('tbody tr').length") == 50
    assert await tab.evaluate("longest") < 200
    await site.go("units?phase=Failed")
    await site.shows(LONG[:60])
    assert await tab.evaluate("document.querySelectorAll('tbody tr').length") == 2
    assert await tab.evaluate("longest") < 200
