"""Every screen in both themes and sizes: no finding of axe, nothing scrolls sideways, and little is loaded."""

from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from tests.api.server_process import Server
from tests.architecture.project import ROOT
from tests.console.conftest import DESKTOP, PHONE, OpenPage

pytestmark = pytest.mark.xdist_group("console")
AXE: Final = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
SIDEWAYS: Final = """[...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1
    && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && !e.matches('pre, .table')).map(e => e.className)"""
SCREENS: Final = ("threads", "thread", "side", "inbox", "more", "gone")


@pytest.fixture(scope="module")
def release(server: Server) -> Json:
    """Return a run that plans, calls tools and sub-agents, and asks."""
    server.request("/api/runs?wait=30", {"input": "Why do backups lag?", "agent_type": "guide"})
    return server.request("/api/runs?wait=30", {"input": "Cut the release candidate.", "agent_type": "releaser"})


def path_of(screen: str, release: Json) -> str:
    """Return the address of a screen."""
    thread = f"/console/t/{release['thread_id']}"
    own = {"thread": thread, "side": f"{thread}?side=plan", "gone": "/console/t/none"}
    return own.get(screen, f"/console/{screen}")


@pytest.mark.skipif(not AXE.is_file(), reason="axe is not installed: `make console` installs it with Node 20 or newer")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_axe_finds_nothing(server: Server, open_page: OpenPage, release: Json, theme: str, size: str) -> None:
    viewport = DESKTOP if size == "desktop" else PHONE
    options: dict[str, Any] = {"viewport": viewport, "color_scheme": theme, "reduced_motion": "reduce"}
    page = await open_page(f"{server.url}/console/threads", **options)
    found: dict[str, list[Any]] = {}
    for screen in SCREENS:
        await page.goto(server.url + path_of(screen, release))
        await page.wait_for_selector("main h1")
        await page.wait_for_timeout(350)
        await page.evaluate(AXE.read_text())
        report = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found |= {
            f"{screen} {each['id']}": [node["html"][:200] for node in each["nodes"]] for each in report["violations"]
        }
    assert found == {}


@pytest.mark.parametrize("screen", SCREENS)
async def test_nothing_scrolls_sideways_at_320_pixels(
    server: Server, open_page: OpenPage, release: Json, screen: str
) -> None:
    page = await open_page(server.url + path_of(screen, release), viewport={"width": 320, "height": 640})
    await page.wait_for_selector("main h1")
    await page.wait_for_timeout(350)
    assert await page.evaluate("document.documentElement.scrollWidth") == 320
    assert await page.evaluate(SIDEWAYS) == []


async def test_the_first_rows_need_at_most_six_requests_and_one_socket(
    server: Server, open_page: OpenPage, release: Json
) -> None:
    page = await open_page(f"{server.url}/openapi.json")
    requests: list[str] = []
    sockets: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("websocket", lambda socket: sockets.append(socket.url))
    await page.goto(f"{server.url}/console")
    await page.wait_for_selector(".thread")
    apart = [url for url in requests if not url.endswith((".css", ".svg"))]
    assert len(apart) <= 6, apart
    await page.wait_for_selector("footer .is-live")
    assert len(sockets) == 1


async def test_a_thread_of_thousands_of_messages_has_few_elements_and_keeps_its_place(
    server: Server, open_page: OpenPage
) -> None:
    turn = [{"content": f"message {number}", "role": role} for number in range(450) for role in ("user", "assistant")]
    run = server.request("/api/runs?wait=60", {"messages": [*turn, {"content": "x"}], "agent_type": "echo"})
    for _ in range(2):
        run = server.request(f"/api/threads/{run['thread_id']}/runs?wait=60", {"messages": [*turn, {"content": "x"}]})
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.wait_for_selector(".entry")
    for _ in range(12):
        before = await page.evaluate(_PLACE)
        await page.wait_for_timeout(120)
        after = await page.evaluate(_PLACE)
        assert abs(after[1] - before[1]) <= 2 or after[0] != before[0]  # what is in sight stays where it is
        await page.evaluate("document.querySelector('.log').scrollTop -= 1500")
        assert await page.evaluate("document.querySelectorAll('*').length") <= 1500
    assert await page.evaluate("Number(document.querySelector('.entry .n').textContent)") < 2550


_PLACE: Final = """(() => { const top = document.querySelector('.log').getBoundingClientRect().top;
    const row = [...document.querySelectorAll('.entry')].find(e => e.getBoundingClientRect().top >= top)
        ?? document.querySelector('.entry');
    return [row.querySelector('.n').textContent, row.getBoundingClientRect().top] })()"""
