"""Talking to agents: begin, steer, fork, edit, retry, cancel, choose; and the key page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.api.server_process import Server, run_server
from tests.console.conftest import OpenPage
from tests.console.test_live import start, until
from tests.console.test_safety import assert_another_origin_is_powerless
from tests.console.workspace import write_workspace

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.xdist_group("console")


async def choose_agent(page: "Page", name: str) -> None:
    """Choose the agent of a new thread, with the keyboard."""
    await page.get_by_role("button", name="Agent: ").click()
    await page.wait_for_selector("dialog :focus")
    await page.keyboard.type(name)
    await page.wait_for_selector("dialog [role=option]")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name=f"Agent: {name}").wait_for()


async def test_a_newcomer_begins_a_thread_and_reads_the_answer(server: Server, open_page: OpenPage) -> None:
    page = await open_page(f"{server.url}/")
    await choose_agent(page, "echo")
    await page.get_by_label("Begin a thread").fill("Good *morning*")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".entry:not(.user) em")
    assert await page.inner_text("h1") == "Good *morning*"
    assert await page.title() == "Good *morning* · Holdfast"
    assert await page.inner_text(".user .text") == "Good *morning*"
    await page.wait_for_selector("header .state:has-text('completed')")
    await page.wait_for_selector("footer :text('of 1 worker busy')")
    await page.wait_for_selector("footer :text('today')")
    seen = server.request("/api/runs?limit=1")["items"][0]["last_event_seq"]
    await page.wait_for_selector(f"footer :text-is('event {seen}')")
    await page.goto(f"{server.url}/console/threads")
    await page.get_by_role("button", name="Agent: echo").wait_for()  # the last that was used
    code = "```py\ndef bread(): return 'rye'  # 1150\n```"
    await page.get_by_label("Begin a thread").fill(code)
    await page.get_by_role("button", name="Model: ").click()
    await page.get_by_label("Filter", exact=True).fill("scripted:script.json")
    await page.get_by_role("option", name="Use “scripted:script.json”").click()
    await page.get_by_role("button", name="Send").click()
    await page.wait_for_selector(".entry:not(.user) pre code")
    await until(lambda: page.evaluate("CSS.highlights.get('code-word')?.size > 1"))
    assert await page.locator("pre code *").count() == 0  # the colours are no elements
    assert server.request("/api/runs?limit=1")["items"][0]["model"] == "scripted:script.json"


async def test_a_newcomer_talks_approves_forks_compares_and_finds_what_it_cost(
    server: Server, open_page: OpenPage
) -> None:
    page = await open_page(f"{server.url}/")
    await choose_agent(page, "releaser")
    await page.get_by_label("Begin a thread").fill("Cut the release candidate.")
    await page.get_by_role("button", name="Send").click()
    await page.locator(".log .ask").get_by_role("button", name="Approve").click()
    await page.wait_for_selector("header .state:has-text('completed')")
    await page.locator("header").get_by_text("$0.24 of $2.00").wait_for()
    await page.locator("header").get_by_role("button", name="Fork").click()
    await page.wait_for_selector(".say :focus")
    await page.wait_for_selector(".meaning:has-text('Sending begins a branch')")
    await page.keyboard.type("Leave out the cursor change.")
    await page.keyboard.press("Enter")
    await page.locator(".tree a", has_text="Leave out the cursor change.").wait_for()
    await page.locator("header").get_by_text("Compare").click()
    await page.wait_for_selector("h1:has-text('Compare two branches')")
    await page.wait_for_selector(".branch:has-text('Nothing was said here after the common message.')")
    await page.get_by_role("link", name="Costs").first.click()
    await page.wait_for_selector("section:has-text('By thread') :text('Cut the release candidate.')")


async def test_an_answer_is_forked_and_a_message_edited(server: Server, open_page: OpenPage) -> None:
    run = server.request("/api/runs?wait=30", {"input": "one", "agent_type": "echo"})
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.get_by_role("button", name="Fork from 1").click()
    await page.wait_for_selector(".say :focus")
    await page.keyboard.type("two")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/t/{run['thread_id']}/run_*")
    await page.wait_for_selector("text=from 1: two")
    await page.wait_for_selector(".entry:not(.user) .text:has-text('two')")
    await page.get_by_role("button", name="Edit").first.click()
    await until(lambda: _draft_is(page, "one"))
    await page.wait_for_selector(".say :focus")
    await page.keyboard.press("ControlOrMeta+A")
    await page.keyboard.type("three")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".entry:not(.user) .text:has-text('three')")
    assert await page.locator(".entry.user").count() == 1
    runs = server.request(f"/api/threads/{run['thread_id']}/runs")["items"]
    bases = [(each["base_run_id"], each["base_sequence"]) for each in runs]
    assert bases == [(None, None), (run["id"], 1), (None, None)]
    await page.locator(".tree a", has_text="one").click()
    await page.wait_for_selector(".forks")


async def test_a_run_is_steered_cancelled_and_retried(server: Server, open_page: OpenPage) -> None:
    run = start(server, "staller")
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.wait_for_selector("text=Heard before the next model call.")
    await page.get_by_label("Message").fill("listen to me")
    await page.keyboard.press("Enter")
    await until(lambda: _draft_is(page, ""))
    await page.get_by_role("button", name="Cancel").click()
    await page.wait_for_selector("header .state:has-text('cancelled')")
    await page.wait_for_selector(".user .text:has-text('listen to me')")
    await page.get_by_role("button", name="Retry").click()
    await page.wait_for_selector("header .live.state")
    await page.get_by_role("button", name="Cancel").click()


async def _draft_is(page: "Page", text: str) -> bool:
    return await page.get_by_label("Message").input_value() == text


async def test_a_failed_run_says_why_and_a_question_is_answered_by_a_choice(
    server: Server, open_page: OpenPage
) -> None:
    failed = server.request("/api/runs?wait=30", {"input": "x", "agent_type": "failing"})
    page = await open_page(f"{server.url}/console/t/{failed['thread_id']}")
    await page.wait_for_selector(".failure:has-text('the model says no')")
    chosen = server.request("/api/runs?wait=30", {"input": "x", "agent_type": "chooser"})
    await page.goto(f"{server.url}/console/t/{chosen['thread_id']}")
    await page.get_by_role("button", name="green").click()
    await page.wait_for_selector("text=It will be green.")


async def test_a_draft_is_kept_and_a_refused_message_too(server: Server, open_page: OpenPage) -> None:
    run = server.request("/api/runs?wait=30", {"input": "one", "agent_type": "echo"})
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.get_by_label("Message").fill("half a thought")
    await page.goto(f"{server.url}/console/threads")
    await page.goto(f"{server.url}/console/t/{run['thread_id']}")
    await page.wait_for_selector(".entry")
    assert await page.get_by_label("Message").input_value() == "half a thought"
    server.request(f"/api/threads/{run['thread_id']}/archive", {}, method="POST")
    await page.get_by_label("Message").press("Enter")
    await page.wait_for_selector(".meaning .fail:has-text('archived')")
    assert await page.get_by_label("Message").input_value() == "half a thought"


async def test_a_thread_that_does_not_exist_is_gone(server: Server, open_page: OpenPage) -> None:
    page = await open_page(f"{server.url}/console/t/thr_none")
    await page.wait_for_selector("text=This is gone, or was never here.")
    await page.goto(f"{server.url}/console/nothing")
    await page.wait_for_selector("text=There is no such screen")


async def test_a_server_with_keys_asks_for_one_and_no_script_can_read_it(tmp_path: Path, open_page: OpenPage) -> None:
    write_workspace(tmp_path / "workspace")
    with run_server(tmp_path, "--quiet") as server:
        first = await open_page(f"{server.url}/console/settings/keys", cut=True)
        await first.get_by_role("button", name="New key…").click()
        await first.get_by_label("Name").fill("root")
        await first.get_by_role("button", name="Create").click()
        secret = await first.inner_text(".secret code")  # who makes the first key is not locked out, and sees it
        await first.wait_for_selector(".row:has-text('root') :text('admin')")
        page = await open_page(f"{server.url}/console/inbox", cut=True)
        await page.get_by_label("Key").fill("hf_wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=does not accept this key")
        await page.get_by_label("Key").fill(secret)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=Nobody waits for you.")
        await page.wait_for_selector("footer .is-live")
        kept = "document.cookie + JSON.stringify({...localStorage, ...sessionStorage})"
        assert "hf_" not in await page.evaluate(kept)
        (cookie,) = await page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        await assert_another_origin_is_powerless(page.context, server, Authorization=f"Bearer {secret}")
        await page.goto(f"{server.url}/console/settings/browser")
        await page.get_by_role("button", name="Forget the key").click()
        await page.wait_for_selector("text=This server needs a key")
        assert json.dumps(await page.context.cookies()) == "[]"
