"""The console in a real browser: its contents, its accessibility, and its use by keyboard."""

import asyncio
from importlib.resources import files
from typing import Any

import pytest

from gpuruntime.api.cluster_link import ClusterLink
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.eventually import eventually
from tests.proofs.browser.chromium import PATIENCE_SECONDS
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
FIRST = "document.querySelector('tbody tr').dataset.key"
ROWS = "document.querySelectorAll('tbody tr').length"


async def test_the_console_shows_objects_and_failures(site: Site) -> None:
    await site.go("")
    await site.shows("3 available, 1 progressing")
    await site.shows("no weights in /data")
    await site.go("units")
    await site.shows("Suspended")
    await site.tab.equals(ROWS, 5)
    spoken = await site.tab.value("document.querySelector('[data-key=ready] .timeline').ariaLabel")
    assert "ready after 500 ms" in spoken


async def test_changes_appear_without_a_reload_and_keep_the_focus(site: Site) -> None:
    await site.go("units")
    await site.tab.focus("tr[data-key=ready] .name")
    add_unit(site.cluster, "another")
    await site.shows("another")
    path = GPU_UNITS.path(namespace=INSTANCE, name="ready", subresource="status")
    site.cluster.call("PATCH", path, {"status": {"nodeName": "node-9"}})
    await site.shows("node-9")
    await site.focuses("ready")
    site.cluster.call("DELETE", GPU_UNITS.path(namespace=INSTANCE, name="another"))
    await site.tab.until("!document.querySelector('tr[data-key=another]')")


async def test_a_unit_is_created_and_deleted_by_keyboard(site: Site) -> None:
    tab = site.tab
    await site.go("units")
    for _ in range(20):
        await tab.press("Tab")
        if await site.focused() == "New unit":
            break
    await site.focuses("New unit")
    await tab.press("Enter")
    await site.focuses("Name (optional)")
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
    await site.focuses("New unit")
    await tab.equals("document.getElementById('said').textContent", "Unit typed is created.")
    await tab.until("document.querySelector('tr[data-key=typed]')")

    await tab.focus("tr[data-key=typed] .acts button")
    await tab.press("Enter")
    await site.focuses("Cancel")
    await tab.press("Tab")
    await tab.press(" ")
    await tab.until("!document.querySelector('tr[data-key=typed]')")
    await tab.until("!document.querySelector('dialog') && document.activeElement.closest('main')")
    await eventually(
        lambda: site.api.call("GET", f"{UNITS}/typed"),
        is_not_found,
        within_seconds=PATIENCE_SECONDS,
    )


async def test_a_secret_is_stored_and_deleted_and_its_value_is_never_shown(site: Site) -> None:
    tab = site.tab
    await site.go("secrets")
    await site.shows("There is no secret yet.")
    await tab.focus(".head .primary")
    await site.focuses("New secret")
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
    await tab.focus("tr[data-key=hub] .acts button")
    await tab.press("Enter")
    await site.focuses("Cancel")
    await tab.press("Tab")
    await tab.press(" ")
    await tab.until("!document.querySelector('tr[data-key=hub]')")
    await eventually(
        lambda: site.api.call("GET", SECRETS), has_no_data, within_seconds=PATIENCE_SECONDS
    )


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
    await site.focuses("New pool")


async def test_a_refusal_is_shown_in_the_dialog_and_can_be_corrected(site: Site) -> None:
    tab = site.tab
    await site.go("pools")
    await site.press("New pool")
    await tab.press("Enter")
    await tab.until("document.querySelector('dialog [role=alert]').innerText.includes('Spec')")
    await tab.equals("document.activeElement.getAttribute('aria-invalid')", "true")
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
        await site.opens(opener)
        await assert_narrow(site, opener)
        await site.leaves()


def is_not_found(reply: Any) -> bool:
    return bool(reply.status == 404)


def has_no_data(reply: Any) -> bool:
    return bool(reply.data == [])


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
        await site.opens(opener)
        assert await site.tab.evaluate(CONTRAST) == [], opener
        await site.leaves()


async def test_every_control_has_a_name_and_every_place_a_heading(site: Site) -> None:
    for place in PLACES:
        await site.go(place)
        assert await site.tab.evaluate("document.querySelectorAll('h1').length") == 1
        assert await nameless(site) == [], place
    for place, opener in OPENERS:
        await site.go(place)
        await site.opens(opener)
        assert await nameless(site) == [], opener
        await site.leaves()


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
    await site.tab.equals(length, "0.25s")
    await site.tab.prefer(motion="reduce")
    await site.tab.equals(length, "0s")


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
    await site.tab.equals("document.getElementById('connection').innerText", "Not live")
    await site.shows("ready")
    site.api.connection = WELL
    await site.tab.until("document.getElementById('connection').innerText === 'Live'")
    await site.tab.until("document.getElementById('notice').hidden")


async def test_ten_thousand_units_keep_the_pages_responsive(site: Site) -> None:
    site.cluster.add_stock(MANY, is_ready=False)
    tab = site.tab
    await site.go("stock")
    await tab.equals(ROWS, 50)
    first = await tab.value(FIRST)
    async with tab.working_less_than(0.1 * 3):
        for _ in range(3):
            await site.press("Next")
            first = await tab.value(f"(key => key !== '{first}' && key)({FIRST})")
            await tab.equals(ROWS, 50)
    async with tab.working_less_than(0.5):
        for number in range(200):
            add_unit(site.cluster, f"busy-{number}")
            await asyncio.sleep(0.005)  # the pace of the changes, which nothing waits for
        await tab.equals(ROWS, 50)
    async with tab.working_less_than(0.5):
        await site.go("units?phase=Failed")
        await site.shows(LONG[:60])
        await tab.equals(ROWS, 2)
