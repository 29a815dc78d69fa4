"""Every screen in both themes and sizes: no finding of axe, nothing scrolls sideways, and little is loaded."""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from holdfast.domain.content import Json
from tests.api.server_process import Server
from tests.architecture.project import ROOT
from tests.console.conftest import DESKTOP, PHONE, OpenPage
from tests.console.story import LISTS, tell
from tests.console.test_live import ended, until

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.xdist_group("console")
AXE: Final = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
SIDEWAYS: Final = """[...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1
    && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && !e.matches('pre, .table')).map(e => e.className)"""
SCREENS: Final = ("threads", "thread", "side", "inbox", "gone", *LISTS)
GO: Final = """path => { const link = document.createElement('a'); link.href = path; document.body.append(link);
    link.click(); link.remove() }"""
NOWHERE: Final = "document.querySelector('main h1')?.textContent === 'There is no such screen'"
SHOWN: Final = f"""document.querySelector('main h1') !== null && !({NOWHERE})
    && document.querySelector('.loading') === null"""


@pytest.fixture(scope="module")
def release(server: Server) -> Json:
    """Return a run that plans, calls tools and sub-agents, and asks."""
    server.request("/api/runs?wait=30", {"input": "Why do backups lag?", "agent_type": "guide"})
    return server.request("/api/runs?wait=30", {"input": "Cut the release candidate.", "agent_type": "releaser"})


@pytest.fixture(scope="module")
def paths(server: Server, release: Json) -> dict[str, str]:
    """Return the addresses of all screens."""
    thread = f"t/{release['thread_id']}"
    own = {"thread": thread, "side": f"{thread}?side=plan", "gone": "t/none"}
    return {screen: own.get(screen, screen) for screen in SCREENS} | tell(server)


async def go(page: "Page", path: str) -> None:
    """Go to a screen as a link does, and wait until it shows what it has read.

    The way leads over an address without a screen: what is shown afterwards is not what was shown before.
    """
    for at, wanted in (("nowhere", NOWHERE), (path, SHOWN)):
        await page.evaluate(GO, f"/console/{at}")
        await until(partial(page.evaluate, wanted))


LOOKS: Final[tuple[tuple[dict[str, int], str, list[str]], ...]] = (
    (DESKTOP, "light", []),
    (DESKTOP, "dark", ["color-contrast"]),  # a theme changes colours only
    (PHONE, "dark", []),
    (PHONE, "light", ["color-contrast"]),
)
FIND: Final = """async rules => { await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame)
    const only = rules.length ? {runOnly: {type: 'rule', values: rules}} : {}
    const {violations} = await axe.run(document, {resultTypes: ['violations'], ...only})
    return violations.map(each => [each.id, each.nodes.map(node => node.html.slice(0, 200))]) }"""
NARROW: Final = {"width": 320, "height": 640}


@pytest.mark.skipif(not AXE.is_file(), reason="axe is not installed: `make console` installs it with Node 20 or newer")
async def test_axe_finds_nothing_on_any_screen_and_nothing_scrolls_sideways(
    server: Server, open_page: OpenPage, paths: dict[str, str]
) -> None:
    page = await open_page(f"{server.url}/console/threads", reduced_motion="reduce")
    await page.evaluate(AXE.read_text())
    found: dict[str, Any] = {}
    sideways = {}
    for name, path in paths.items():
        await page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
        await go(page, path)
        for size, theme, rules in LOOKS:
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            found[f"{name}, {theme}, {size['width']}"] = await page.evaluate(FIND, rules)
        await page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        sideways[name] = [await page.evaluate("document.documentElement.scrollWidth"), await page.evaluate(SIDEWAYS)]
    assert {name: each for name, each in found.items() if each} == {}
    assert {name: each for name, each in sideways.items() if each != [320, []]} == {}


async def test_the_first_rows_need_at_most_six_requests_and_one_socket(
    server: Server, open_page: OpenPage, release: Json
) -> None:
    page = await open_page(f"{server.url}/openapi.json")
    requests: list[str] = []
    sockets: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    encodings: dict[str, str | None] = {}
    page.on("response", lambda answer: encodings.update({answer.url: answer.headers.get("content-encoding")}))
    page.on("websocket", lambda socket: sockets.append(socket.url))
    await page.goto(f"{server.url}/console")
    await page.wait_for_selector(".thread")
    apart = [url for url in requests if not url.endswith((".css", ".svg"))]
    assert len(apart) <= 6, apart
    await page.wait_for_selector("footer .is-live")
    assert len(sockets) == 1
    lists = [encoding for url, encoding in encodings.items() if "/api/threads" in url]
    assert lists and set(lists) == {"gzip"}  # they are longer than 1 KB


async def test_a_thread_of_ten_thousand_messages_has_few_elements_and_keeps_its_place(
    server: Server, open_page: OpenPage
) -> None:
    run = server.request("/api/runs", {"input": "the first words", "agent_type": "echo"})
    thread = run["thread_id"]
    for number in range(204):  # more runs than one page of them has
        run = server.request(f"/api/threads/{thread}/runs", {"input": f"run {number}"})
    server.request(f"/api/runs/{run['id']}?wait=60")
    turn = [{"content": f"message {number}", "role": role} for number in range(450) for role in ("user", "assistant")]
    for _ in range(11):
        run = server.request(f"/api/threads/{thread}/runs?wait=60", {"messages": [*turn, {"content": "x"}]})
    page = await open_page(f"{server.url}/console/t/{thread}")
    await page.wait_for_selector(".entry")
    last = first = await page.evaluate(_FIRST_SHOWN)
    assert last > 10_000
    while first > last - 300:  # some pages further up
        before = await page.evaluate(_PLACE)
        await page.wait_for_timeout(120)  # older pages may come in
        after = await page.evaluate(_PLACE)
        assert abs(after[1] - before[1]) <= 2 or after[0] != before[0]  # what is in sight stays where it is
        await page.evaluate("document.querySelector('.log').scrollTop -= 1500")
        assert await page.evaluate(_ELEMENTS) <= MAX_ELEMENTS
        first = await page.evaluate(_FIRST_SHOWN)
    await page.goto(f"{server.url}/console/t/{thread}?at=0")
    await page.wait_for_selector(".entry.user .text:has-text('the first words')")
    assert await page.evaluate(_ELEMENTS) <= MAX_ELEMENTS


async def test_a_run_of_ten_thousand_steps_has_few_elements(server: Server, open_page: OpenPage) -> None:
    run = server.request("/api/runs", {"input": "go", "agent_type": "busy"})
    await until(lambda: ended(server, run["id"]), 300)
    page = await open_page(f"{server.url}/console/r/{run['id']}")
    await page.wait_for_selector("text=10,188 steps")
    for _ in range(8):
        assert await page.evaluate(_ELEMENTS) <= MAX_ELEMENTS
        await page.evaluate("(box => { box.scrollTop += box.scrollHeight / 8 })(document.querySelector('.lanes'))")
        await page.wait_for_timeout(60)
    assert await page.locator(".lane-row:has-text('model')").count() >= 1
    await page.locator(".lane-row:has-text('model') summary").last.click()
    await page.get_by_role("link", name="What it was told").press("Enter")
    await page.wait_for_selector(".told")
    assert await page.evaluate(_ELEMENTS) <= MAX_ELEMENTS
    await go(page, f"t/{run['thread_id']}?side=log")
    await page.wait_for_selector(".raw summary")
    assert await page.evaluate(_ELEMENTS) <= MAX_ELEMENTS


async def test_two_branches_are_compared_and_a_context_shows_what_changed(
    server: Server, open_page: OpenPage, paths: dict[str, str], release: Json
) -> None:
    page = await open_page(f"{server.url}/console/{paths['compare']}")
    await page.wait_for_selector(".branch:has-text('And without gluten?')")
    assert "from message 1 on" in await page.inner_text("header")
    assert "And without gluten?" not in await page.locator(".branch").first.inner_text()
    await page.keyboard.press("Escape")
    await page.wait_for_selector(".entry")
    await page.keyboard.press("c")  # back: there are two other ends, and the newest is the other of these
    await page.wait_for_selector("h1:has-text('Compare two branches')")
    await go(page, f"r/{release['id']}/context")
    await page.wait_for_selector(".told .wait:has-text('changed')")
    assert await page.locator(".told .diff .new").count() > 0
    assert await page.locator(".told .add:has-text('new')").count() > 0
    step = await page.inner_text("h1")
    await page.keyboard.press("k")
    await until(lambda: _is_not(page, step))


async def _is_not(page: "Page", heading: str) -> bool:
    return await page.inner_text("h1") != heading


MAX_ELEMENTS: Final = 1500
_ELEMENTS: Final = "document.querySelectorAll('*').length"
_FIRST_SHOWN: Final = "Number(document.querySelector('.entry .n').textContent)"
_PLACE: Final = """(() => { const top = document.querySelector('.log').getBoundingClientRect().top;
    const row = [...document.querySelectorAll('.entry')].find(e => e.getBoundingClientRect().top >= top)
        ?? document.querySelector('.entry');
    return [row.querySelector('.n').textContent, row.getBoundingClientRect().top] })()"""
