"""The states of every screen: while it is read, when that fails or is not allowed, and when there is nothing."""

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.api.server_process import Server
from tests.console.conftest import OpenPage
from tests.console.story import LISTS
from tests.console.test_screens import GO, go

if TYPE_CHECKING:
    from playwright.async_api import Route

pytestmark = pytest.mark.xdist_group("console")
OWN: Final = ("more", "settings/browser")
"""Screens that read nothing."""
EMPTY: Final = {
    "inbox": "Nobody waits for you.",
    "threads": "No threads yet.",
    "threads?status=archived": "No thread is archived.",
    "runs": "No run matches.",
    "board": "Nothing.",
    "memory": "No memories yet.",
    "schedules": "No schedules yet.",
    "reminders": "No reminders.",
    "costs": "No model call used tokens in this time.",
    "news": "Nothing happened yet.",
    "find?q=nothing": "Nothing was found.",
    "workers": "No run waits for a worker.",
    "settings/rules": "Nobody has said",
}


async def test_every_screen_says_that_it_reads_that_it_failed_and_that_a_key_may_not(
    server: Server, open_page: OpenPage
) -> None:
    page = await open_page(f"{server.url}/console/more", expected="status of 500")
    answers = {"status": 0}

    async def answer(route: "Route") -> None:
        if answers["status"] == 0:
            return  # it is on its way
        if answers["status"] == 200 or route.request.resource_type != "fetch":
            await route.continue_()
            return
        error = {"code": "BROKEN", "message": "the oven is cold", "details": {}}
        headers = {"X-Request-Id": "req_17", "Content-Type": "application/json"}
        await route.fulfill(status=answers["status"], headers=headers, body=json.dumps({"error": error}))

    await page.wait_for_selector("footer :text('today')")
    await page.route(lambda url: "/console/" not in url, answer)
    for path in [each for each in LISTS if each not in OWN]:
        for status, wanted in ((500, "the oven is cold"), (403, "Your key may not do this.")):
            answers["status"] = status
            await go(page, path)
            await page.wait_for_selector(f"main [role=alert]:has-text('{wanted}'):has-text('BROKEN · req_17')")
        answers["status"] = 200
        for retry in await page.get_by_role("main").get_by_role("button", name="Try again").all():
            await retry.dispatch_event("click")
        await page.wait_for_selector("main [role=alert]", state="detached")
    answers["status"] = 0
    await page.evaluate("document.querySelector('nav a[href$=runs]').click()")
    await page.wait_for_selector("main .loading i")


async def test_every_list_of_an_empty_space_says_so_and_what_to_do(server: Server, open_page: OpenPage) -> None:
    server.request("/api/spaces", {"id": "empty"})
    page = await open_page(f"{server.url}/console/s/empty/more")
    for path, words in EMPTY.items():
        await page.evaluate(GO, f"/console/s/empty/{path}")
        await page.wait_for_selector(f"main :text('{words}')")
