"""Every screen in both themes and sizes: no finding of axe, nothing scrolls sideways, and little is loaded."""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from holdfast.domain.content import Json
from tests.api.server_process import Server
from tests.architecture.project import ROOT
from tests.console.conftest import DESKTOP, PHONE, OpenPage
from tests.console.story import LISTS, tell
from tests.console.test_live import until

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


@pytest.mark.skipif(not AXE.is_file(), reason="axe is not installed: `make console` installs it with Node 20 or newer")
@pytest.mark.parametrize(
    ("theme", "size"),
    [
        ("light", DESKTOP),
        ("dark", PHONE),
        pytest.param("dark", DESKTOP, marks=pytest.mark.slow),
        pytest.param("light", PHONE, marks=pytest.mark.slow),
    ],
)
async def test_axe_finds_nothing_on_any_screen(
    server: Server, open_page: OpenPage, paths: dict[str, str], theme: str, size: dict[str, int]
) -> None:
    options: dict[str, Any] = {"viewport": size, "color_scheme": theme, "reduced_motion": "reduce"}
    page = await open_page(f"{server.url}/console/threads", **options)
    await page.evaluate(AXE.read_text())
    found = {}
    for name, path in paths.items():
        await go(page, path)
        report = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found[name] = {each["id"]: [node["html"][:200] for node in each["nodes"]] for each in report["violations"]}
    assert {name: each for name, each in found.items() if each} == {}


async def test_nothing_scrolls_sideways_at_320_pixels(
    server: Server, open_page: OpenPage, paths: dict[str, str]
) -> None:
    page = await open_page(f"{server.url}/console/threads", viewport={"width": 320, "height": 640})
    found = {}
    for name, path in paths.items():
        await go(page, path)
        found[name] = [await page.evaluate("document.documentElement.scrollWidth"), await page.evaluate(SIDEWAYS)]
    assert {name: each for name, each in found.items() if each != [320, []]} == {}


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


@pytest.mark.parametrize("runs", [3, pytest.param(12, marks=pytest.mark.slow)])
async def test_a_thread_of_thousands_of_messages_has_few_elements_and_keeps_its_place(
    server: Server, open_page: OpenPage, runs: int
) -> None:
    turn = [{"content": f"message {number}", "role": role} for number in range(450) for role in ("user", "assistant")]
    run = server.request("/api/runs?wait=60", {"messages": [*turn, {"content": "x"}], "agent_type": "echo"})
    for _ in range(runs - 1):
        run = server.request(f"/api/threads/{run['thread_id']}/runs?wait=60", {"messages": [*turn, {"content": "x"}]})
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.wait_for_selector(".entry")
    first = runs * 900
    while first >= runs * 900 - 300:  # some pages further up
        before = await page.evaluate(_PLACE)
        await page.wait_for_timeout(120)  # older pages may come in
        after = await page.evaluate(_PLACE)
        assert abs(after[1] - before[1]) <= 2 or after[0] != before[0]  # what is in sight stays where it is
        await page.evaluate("document.querySelector('.log').scrollTop -= 1500")
        assert await page.evaluate("document.querySelectorAll('*').length") <= 1500
        first = await page.evaluate("Number(document.querySelector('.entry .n').textContent)")


@pytest.mark.parametrize("turns", [10, pytest.param(167, marks=pytest.mark.slow)])
async def test_a_run_of_thousands_of_steps_has_few_elements(server: Server, open_page: OpenPage, turns: int) -> None:
    run = server.request("/api/runs?wait=300", {"input": str(turns), "agent_type": f"busy{turns}"})
    page = await open_page(f"{server.url}/console/r/{run['id']}")
    await page.wait_for_selector(f"text={turns * 61 + 1:,} steps", timeout=60_000)
    for _ in range(8):
        assert await page.evaluate("document.querySelectorAll('*').length") <= 1500
        await page.evaluate("(box => { box.scrollTop += box.scrollHeight / 8 })(document.querySelector('.lanes'))")
        await page.wait_for_timeout(60)
    assert await page.locator(".lane-row:has-text('model')").count() >= 1
    await page.locator(".lane-row:has-text('model') summary").last.click()
    await page.get_by_role("link", name="What it was told").press("Enter")
    await page.wait_for_selector("h1:has-text('Context at step')", timeout=60_000)


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


_PLACE: Final = """(() => { const top = document.querySelector('.log').getBoundingClientRect().top;
    const row = [...document.querySelectorAll('.entry')].find(e => e.getBoundingClientRect().top >= top)
        ?? document.querySelector('.entry');
    return [row.querySelector('.n').textContent, row.getBoundingClientRect().top] })()"""
