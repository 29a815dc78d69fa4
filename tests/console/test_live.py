"""Live pages: cuts of the wire and kills of the server change nothing, and of two answers one wins."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.domain.content import Json
from tests.api.server_process import Server, run_server
from tests.console.conftest import PHONE, OpenPage
from tests.console.wire import wire_to
from tests.console.workspace import LONG_ANSWER, write_script, write_workspace

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = pytest.mark.xdist_group("console")
GROWING = ".entry:not(.user, .abandoned) .text"


def start(server: Server, agent: str, text: str = "go") -> Json:
    """Start a run on a new thread."""
    return server.request("/api/runs", {"input": text, "agent_type": agent})


def ask(server: Server) -> Json:
    """Start a run that asks for an approval, and wait until it does."""
    return server.request("/api/runs?wait=30", {"input": "push it", "agent_type": "asker"})


async def until(check: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Wait until a check holds."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not await check():
        assert asyncio.get_running_loop().time() < deadline, "it takes too long"
        await asyncio.sleep(0.05)


async def written(page: "Page") -> str:
    """Return the text of the answer on the page."""
    return str(await page.evaluate(f"document.querySelector('{GROWING}')?.textContent ?? ''"))


TABS = 12
CUTS = 200


async def test_twelve_tabs_whose_wires_are_cut_two_hundred_times_show_the_log_to_the_letter(
    server: Server, open_page: OpenPage
) -> None:
    async with wire_to(int(server.port)) as wire:
        thread = server.request("/api/threads", {"agent_type": "writer"})["id"]
        first = await open_page(f"{wire.url}/console/t/{thread}", cut=True)
        tabs = [first, *[await first.context.new_page() for _ in range(TABS - 1)]]
        for tab in tabs:
            await tab.goto(f"{wire.url}/console/t/{thread}")
            await tab.evaluate(_COUNT_CUTS)
        for tab in tabs:  # the cuts fall into the answer, however slow the machine
            await tab.wait_for_selector("footer .is-live")
        run, cuts = "", 0
        while cuts < CUTS:
            if not run or await ended(server, run):
                run = server.request(f"/api/threads/{thread}/runs", {"input": "go"})["id"]
            await asyncio.sleep(0.2)
            wire.clog(True)  # what was sent before the cut may lie on the way
            await asyncio.sleep(0.02)
            wire.cut()
            wire.clog(False)
            cuts = sum([await tab.evaluate("window.cuts") for tab in tabs])
        await until(lambda: ended(server, run))
        for tab in tabs:
            await until(lambda tab=tab: _is_whole(tab))  # type: ignore[misc]
            assert await tab.locator(".break, .failure").count() == 0
            assert await tab.evaluate("fetch('/api/me').then(answer => answer.status)") == 200
        await first.reload()
        await until(lambda: _is_whole(first))


_COUNT_CUTS = """(() => { window.cuts = 0
    new MutationObserver(() => { const down = document.querySelector('footer .fail') !== null
        if (down && !window.down) window.cuts += 1
        window.down = down }).observe(document.querySelector('footer'), {subtree: true, childList: true,
            attributes: true, characterData: true}) })()"""
"""How often this page was cut off and saw it: a cut that meets no socket is none."""


async def _is_whole(page: "Page") -> bool:
    """Whether the run has ended, and all of its answers that are in sight are the text of the log."""
    texts = await page.evaluate(f"[...document.querySelectorAll('{GROWING}')].map(each => each.textContent)")
    return texts != [] and set(texts) == {LONG_ANSWER} and await page.locator("header .state.live").count() == 0


async def _equals(page: "Page", text: str) -> bool:
    return await written(page) == text


async def test_a_server_that_is_killed_while_tokens_arrive_loses_and_repeats_nothing(
    tmp_path: Path, open_page: OpenPage
) -> None:
    write_workspace(tmp_path / "workspace")
    with run_server(tmp_path, "--quiet") as first:
        async with wire_to(int(first.port)) as wire:
            run = start(first, "halting")  # it writes one half, and the other only after the kill
            page = await open_page(f"{wire.url}/console/t/{run['thread_id']}", cut=True)
            await page.wait_for_selector(GROWING)  # and the rest of that half is on its way
            write_script(
                tmp_path / "workspace", "halting", {"turns": [{"say": LONG_ANSWER, "chunks": 350, "delay_ms": 2}]}
            )
            first.kill()
            await page.wait_for_selector("footer .fail")
            with run_server(tmp_path, "--quiet") as second:
                wire.target = int(second.port)
                await until(lambda: _equals(page, LONG_ANSWER))
                await _see_the_recovery(page)
                assert await page.locator(".abandoned").count() == 1
                assert "nothing was done twice" in await page.inner_text(".break")
                log = second.log(run["id"])
                assert log[0]["type"] == "RUN_STARTED"
                await page.reload()
                await until(lambda: _equals(page, LONG_ANSWER))
                await _see_the_recovery(page)  # from the facts of an ended run
                await page.close()


async def _see_the_recovery(page: "Page") -> None:
    """Scroll to the line across the conversation: rows that are not in sight do not exist."""
    await page.evaluate("document.querySelector('.log').scrollTop = 0")
    await page.wait_for_selector("text=/worker \\d+ went on/")


async def test_of_two_pages_that_answer_at_once_one_wins_and_the_other_says_who_did(
    server: Server, open_page: OpenPage
) -> None:
    run = ask(server)
    url = f"{server.url}/console/t/{run['thread_id']}"
    pages = [await open_page(url), await open_page(url)]
    both = asyncio.Barrier(2)

    async def send_together(route: "Route") -> None:
        await both.wait()
        await route.continue_()

    for page in pages:
        await page.route("**/respond", send_together)
        await page.click(".log .ask .first")
    await until(lambda: ended(server, run["id"]))
    await until(lambda: _is_told(pages))
    shown = [await page.inner_text(".notice") for page in pages]
    assert sorted("was faster: approved" in text for text in shown) == [False, True], shown


async def _is_told(pages: list["Page"]) -> bool:
    return any(["was faster" in await page.inner_text(".notice") for page in pages])


async def ended(server: Server, run: str) -> bool:
    """Whether a run has completed."""
    return bool(server.request(f"/api/runs/{run}")["status"] == "completed")


async def test_an_approval_is_given_with_the_keyboard_alone(server: Server, open_page: OpenPage) -> None:
    run = ask(server)
    page = await open_page(f"{server.url}/console/threads")
    await page.wait_for_selector(".thread")
    await page.keyboard.press("g")
    await page.keyboard.press("i")
    await page.wait_for_selector(".ask")
    await page.keyboard.press("a")
    await until(lambda: ended(server, run["id"]))
    await page.wait_for_selector("text=Nobody waits for you")


async def test_a_denial_takes_a_reason_with_the_keyboard_alone(server: Server, open_page: OpenPage) -> None:
    run = ask(server)
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.wait_for_selector(".ask")
    await page.keyboard.press("d")
    await page.wait_for_selector(".ask :focus")
    await page.keyboard.type("not today")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("text=denied")
    assert (
        "not today" in server.request(f"/api/threads/{run['thread_id']}/export?format=json")["messages"][2]["content"]
    )


async def test_an_approval_is_given_on_a_phone(server: Server, open_page: OpenPage) -> None:
    run = ask(server)
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}", viewport=PHONE, has_touch=True, is_mobile=True)
    button = page.locator(".pinned button", has_text="Approve")
    box = await button.bounding_box()
    assert box is not None and box["height"] >= 44
    await button.tap()
    await until(lambda: ended(server, run["id"]))
