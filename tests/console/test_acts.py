"""What a person does on the screens besides conversations: plan items, memories, schedules, keys, settings, skills."""

import re
from typing import TYPE_CHECKING

import pytest

from tests.api.server_process import Server
from tests.console.conftest import OpenPage
from tests.console.hostile import HOSTILE_TEXTS
from tests.console.story import LISTS, tell
from tests.console.test_safety import assert_harmless
from tests.console.test_screens import AXE, go

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.xdist_group("console")
AT = "2099-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def places(server: Server) -> dict[str, str]:
    """Fill the server, and return the addresses of single things."""
    return tell(server)


async def test_a_plan_item_is_completed_from_the_board(server: Server, open_page: OpenPage) -> None:
    thread = server.request("/api/runs?wait=30", {"input": "x", "agent_type": "echo"})["thread_id"]
    server.request(f"/api/threads/{thread}/tasks", {"title": "Bake the bread"})
    page = await open_page(f"{server.url}/console/board")
    await page.get_by_role("button", name="Change “Bake the bread”").click()
    await page.get_by_role("menuitem", name="Start").click()
    await page.wait_for_selector("dialog :focus")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".is-in_progress :text('Bake the bread')")
    await page.get_by_role("button", name="Change “Bake the bread”").click()
    await page.get_by_role("menuitem", name="Complete…").click()
    await page.wait_for_selector("dialog :focus")
    await page.keyboard.type("two loaves")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".is-completed :text('two loaves')")


async def test_an_edited_memory_supersedes_the_old_one(
    server: Server, open_page: OpenPage, places: dict[str, str]
) -> None:
    memory = server.request("/api/memories", {"text": "Rye is sold out.", "type": "semantic"})["id"]
    page = await open_page(f"{server.url}/console/memory/{memory}")
    await page.get_by_role("button", name="Edit…").click()
    await page.get_by_role("textbox", name="Statement").fill("Rye is back.")
    await page.get_by_role("button", name="Replace").click()
    await page.get_by_role("link", name="Rye is back.").click()
    await page.wait_for_selector("section:has-text('It replaced') >> text=Rye is sold out.")
    await go(page, "memory?q=rye")
    await page.wait_for_selector(".row :text('superseded')")
    await go(page, places["memory/one"])
    await page.get_by_role("link", name="user, message 0").click()  # from a memory to the message it came from
    await page.wait_for_selector(".entry.user .text:has-text('When does the bakery close?')")


async def test_a_memory_and_a_skill_name_the_runs_that_used_them(
    server: Server, open_page: OpenPage, places: dict[str, str]
) -> None:
    memory = places["memory/told"]
    page = await open_page(f"{server.url}/console/{memory}")
    used = page.locator("section:has-text('Runs that used it')")
    await used.get_by_role("link", name="and what is the price of rye bread?").click()
    await page.wait_for_selector(".told:has-text('The bakery closes at 17:00 on Saturdays.')")
    await go(page, places["skills/used"])
    await used.get_by_role("link", name="and what is the price of rye bread?").wait_for()
    await go(page, f"runs?{memory.replace('memory/', 'memory_id=')}")
    await page.wait_for_selector("header :text('show all')")
    await page.wait_for_selector(".row:has-text('and what is the price of rye bread?')")
    assert await page.locator(".row:has-text('Which flour')").count() == 0


async def test_a_schedule_is_run_and_paused_and_its_firings_say_why(
    server: Server, open_page: OpenPage, places: dict[str, str]
) -> None:
    page = await open_page(f"{server.url}/console/{places['schedules/one']}")
    await page.wait_for_selector("text=somebody asked for it")
    await page.get_by_role("button", name="Pause").click()
    await page.get_by_role("button", name="Resume").click()
    await page.get_by_role("button", name="Pause").wait_for()
    await page.get_by_role("button", name="Change…").click()
    await page.get_by_label("Cron line").fill("every now and then")
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_selector("dialog [role=alert]")  # refused: the words beside the control, the input kept
    assert await page.get_by_label("Cron line").input_value() == "every now and then"


async def test_a_version_of_an_agent_is_compared_and_activated_and_a_heartbeat_has_a_name(
    server: Server, open_page: OpenPage, places: dict[str, str]
) -> None:
    page = await open_page(f"{server.url}/console/{places['agents/edited']}")
    versions = page.locator("section:has-text('Versions') li")
    await versions.nth(1).wait_for()
    await versions.first.get_by_role("button", name="Changes").click()
    await page.wait_for_selector(".changes .new:has-text('Be brief.')")
    await versions.nth(1).get_by_role("button", name="Activate").click()
    await page.locator("dialog").get_by_role("button", name="Activate").click()
    await page.wait_for_selector("text=not the newest is in use")
    await versions.nth(1).locator("text=in use").wait_for()
    found = server.request("/api/agents/guide/versions")
    assert (found["active"], found["published"]) == (found["items"][1]["digest"], found["items"][0]["digest"])
    await versions.first.get_by_role("button", name="Activate").click()
    await page.locator("dialog").get_by_role("button", name="Activate").click()
    await versions.first.locator("text=in use").wait_for()
    await go(page, "runs?agent=watcher")
    await page.wait_for_selector(".row a:has-text('nightly, due ')")


async def test_a_call_is_edited_always_allowed_and_several_are_denied_at_once(
    server: Server, open_page: OpenPage
) -> None:
    runs = [server.request("/api/runs?wait=30", {"input": "push", "agent_type": "asker"}) for _ in range(4)]
    page = await open_page(f"{server.url}/console/t/{runs[0]['thread_id']}")
    await page.locator(".log .ask").get_by_role("button", name="Edit").click()
    arguments = page.get_by_label("Arguments, as JSON")
    for wrong, words in (("{", "not JSON"), ('{"command": 7}', "command")):
        await arguments.fill(wrong)
        await page.get_by_role("button", name="Approve these").click()
        await page.wait_for_selector(f"dialog [role=alert]:has-text('{words}')")
        assert await arguments.input_value() == wrong  # what was typed is kept
    await arguments.fill('{"command": "echo edited"}')
    await page.get_by_role("button", name="Approve these").click()
    await page.wait_for_selector("header .state:has-text('completed')")
    await page.wait_for_selector(".log :text('edited')")
    await go(page, "inbox")
    await page.locator(".ask").nth(2).wait_for()
    for box in (await page.get_by_role("checkbox").all())[:2]:
        await box.check()
    await page.get_by_role("button", name="Deny them").click()
    await page.wait_for_selector("header:has-text('1 question open')")
    await page.get_by_role("button", name="Always").click()
    await page.locator("dialog button.mono").first.click()
    await page.wait_for_selector("text=Nobody waits for you.")
    await go(page, "settings/rules")
    await page.get_by_role("button", name="Revoke").click()
    await page.wait_for_selector(".row:has-text('bash(git push origin v1)') >> text=revoked by")


async def test_a_thread_is_renamed_and_archived(server: Server, open_page: OpenPage) -> None:
    run = server.request("/api/runs?wait=30", {"input": "Old words", "agent_type": "echo"})
    page = await open_page(f"{server.url}/console/t/{run['thread_id']}")
    await page.locator("header").get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Rename…").click()
    await page.get_by_label("Title").fill("New words")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("h1:text-is('New words')")
    await page.locator("header").get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Archive").click()
    await page.wait_for_selector("text=This thread is archived")


async def test_memories_schedules_reminders_skills_and_spaces_are_made_here(
    server: Server, open_page: OpenPage
) -> None:
    page = await open_page(f"{server.url}/console/memory")
    forms = {
        ("memory", "Keep…", "Keep"): {"Statement": "The oven needs an hour."},
        ("schedules", "New…", ""): {"Name": "evening", "Agent": "echo", "What it is told": "What is left?"},
        ("reminders", "New…", "Set"): {"What": "Order flour"},
        ("skills", "Add…", "Add"): {"Name": "flour", "When it is used": "Flour.", "Instructions": "Ask for the type."},
        ("settings/spaces", "New space…", "Create"): {"Id": "cellar", "Name": "Cellar"},
    }
    for (path, opens, _), fields in forms.items():
        await go(page, path)
        await page.get_by_role("main").get_by_role("button", name=re.compile(f"^{opens[:3]}")).first.click()
        for label, words in fields.items():
            await page.locator("dialog").get_by_label(label, exact=True).fill(words)
        await page.locator("dialog button.first").click()
        first = next(iter(fields.values()))
        await page.wait_for_selector(f".row:has-text('{first}')")
    await go(page, "skills/flour")
    await page.get_by_role("button", name="Switch off").click()
    await page.get_by_role("button", name="Switch on").wait_for()
    await go(page, "memory")
    await page.get_by_role("link", name="The oven needs an hour.").click()
    await page.get_by_role("button", name="Forget").click()
    await page.locator("dialog").get_by_role("button", name="Forget").click()
    await page.wait_for_selector("dialog", state="detached")
    await go(page, "memory")
    assert "The oven needs an hour." not in await page.inner_text("main")


async def test_an_agent_of_the_space_is_made_talked_to_edited_and_deleted(server: Server, open_page: OpenPage) -> None:
    page = await open_page(f"{server.url}/console/agents")
    await page.get_by_role("button", name="New…").click()
    fields = {"Name": "Miller", "What it is for": "Mills.", "Tools, with commas": "ask_user, ", "Instructions": "Mill."}
    for label, words in fields.items():
        await page.locator("dialog").get_by_label(label, exact=True).fill(words)
    await page.get_by_role("button", name="Create").click()
    await page.wait_for_selector("dialog [role=alert]:has-text('lower-case letters')")  # what was typed is kept
    await page.locator("dialog").get_by_label("Name", exact=True).fill("miller")
    await page.get_by_role("button", name="Create").click()
    await page.get_by_role("link", name="miller").click()
    await page.wait_for_selector("dd:text-is('this space')")
    await page.get_by_role("button", name="Edit…").click()
    await page.locator("dialog").get_by_label("Instructions").fill("Mill **rye**.")
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_selector(".prose strong:text-is('rye')")
    made = server.request("/api/agents/miller")
    assert (made["space_id"], made["tools"], made["models"]) == ("default", ["ask_user"], ["openai:gpt-5"])
    server.request("/api/agents/miller", {"instructions": "Elsewhere."}, method="PATCH")
    await page.get_by_role("button", name="Edit…").click()
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_selector("dialog [role=alert]")  # somebody else changed it
    await page.locator("dialog").get_by_role("button", name="Cancel").click()
    assert server.request("/api/agents/miller")["instructions"] == "Elsewhere."
    await page.reload()
    await page.get_by_role("link", name="Talk to it").click()
    await page.get_by_role("button", name="Agent: miller").wait_for()
    await go(page, "agents/miller")
    await page.get_by_role("button", name="Delete").click()
    await page.locator("dialog").get_by_role("button", name="Delete").click()
    await page.wait_for_selector("h1:text-is('Agents')")
    await page.wait_for_selector(".row:has-text('releaser')")
    assert await page.get_by_role("link", name="miller").count() == 0
    await go(page, "agents/releaser")
    await page.wait_for_selector("dd:text-is('the workspace')")
    assert await page.get_by_role("button", name="Edit…").count() == 0


async def test_a_budget_is_set_and_news_are_marked_as_read(server: Server, open_page: OpenPage) -> None:
    page = await open_page(f"{server.url}/console/costs")
    await page.get_by_role("button", name=re.compile("Set a budget…|Change…")).click()
    await page.get_by_label("US dollars").fill("25")
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_selector("text=of $25.00")
    await go(page, "news")
    await page.get_by_role("button", name="Mark all as read").click()
    await page.wait_for_selector(".row .live:text-is('new')", state="detached")


async def test_a_setting_that_somebody_else_changed_is_not_overwritten(server: Server, open_page: OpenPage) -> None:
    page = await open_page(f"{server.url}/console/settings")
    await page.get_by_role("button", name="Change locale").click()
    server.request("/settings", {"default_agent": "echo"}, method="PATCH")
    await page.get_by_label("Value, as JSON").fill('"ja"')
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_selector("dialog [role=alert]")
    assert server.request("/settings")["settings"]["locale"] is None
    await page.reload()
    await page.get_by_role("button", name="Change locale").click()
    await page.get_by_label("Value, as JSON").fill('"ja"')
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_selector(".row:has-text('locale') :text('\"ja\"')")


async def test_no_hostile_text_runs_on_any_screen(server: Server, open_page: OpenPage, places: dict[str, str]) -> None:
    texts = [text.replace("\x1b", "") for text in HOSTILE_TEXTS]
    thread = server.request("/api/runs?wait=30", {"input": "x", "agent_type": "echo"})["thread_id"]
    run = {"type": "run", "agent": "echo", "input": texts[0]}
    found: list[str] = []
    for at in range(0, len(texts), 4):
        text = "\n".join(texts[at : at + 4])
        memory = server.request("/api/memories", {"text": text, "title": texts[at][:200]})
        found.append(f"memory/{memory['id']}")
        name = text[:100].strip()
        server.request(f"/api/threads/{thread}/tasks", {"title": name, "description": text})
        reminder = {"content": text, "trigger_type": "time", "trigger_value": "in 2 h", "context": text}
        found.append(f"reminders/{server.request('/api/reminders', reminder)['id']}")
        found.append(f"schedules/{server.request('/api/schedules', {'name': name, 'at': AT, 'action': run})['id']}")
    skill = {"name": "hostile", "description": texts[0], "instructions": "\n\n".join(texts[:61])}
    server.request("/api/skills", skill)
    server.request("/api/spaces", {"id": "evil", "name": texts[2][:100]})
    page = await open_page(f"{server.url}/console/threads")
    for path in (*LISTS, "skills/hostile", *found[:: len(found) // 12]):
        await go(page, path)
        await assert_harmless(page)


async def test_no_hostile_text_runs_where_runs_are_compared_and_explained(server: Server, open_page: OpenPage) -> None:
    texts = [text.replace("\x1b", "") for text in HOSTILE_TEXTS]
    said = [{"content": text, "role": role} for text in texts for role in ("user", "assistant")]
    first = server.request("/api/runs?wait=30", {"messages": [*said, {"content": texts[0]}], "agent_type": "echo"})
    forks = [
        server.request(
            f"/api/threads/{first['thread_id']}/runs?wait=30",
            {"messages": [*said, {"content": text}], "base_run_id": first["id"], "base_sequence": 1},
        )
        for text in (texts[2], texts[40])
    ]
    called = server.request("/api/runs?wait=30", {"input": texts[1], "agent_type": "mimic", "tags": [texts[2][:50]]})
    thread = f"t/{first['thread_id']}"
    page = await open_page(f"{server.url}/console/threads")
    for path in (
        f"{thread}/compare/{forks[0]['id']}/{forks[1]['id']}",
        f"r/{forks[1]['id']}/context",
        f"t/{called['thread_id']}?side=steps",
        f"t/{called['thread_id']}?side=context",
        f"r/{called['id']}/context",
    ):
        await go(page, path)
        await page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
        assert "pwned" in await page.inner_text("main"), path  # the texts are there, as texts
        await assert_harmless(page)


async def find(page: "Page", text: str) -> None:
    """Open the palette and type a text."""
    await page.keyboard.press("Control+k")
    await page.wait_for_selector(".palette :focus")
    await page.keyboard.type(text)


async def test_the_palette_goes_to_screens_and_threads_and_finds_in_everything(
    server: Server, open_page: OpenPage, places: dict[str, str]
) -> None:
    page = await open_page(f"{server.url}/console/threads")
    await page.wait_for_selector(".thread")
    await find(page, "sched")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("h1:has-text('Schedules')")
    await find(page, "when does the bak")
    await page.wait_for_selector(".palette [role=option]:has-text('When does the bakery close?')")
    if AXE.is_file():
        await page.evaluate(AXE.read_text())
        report = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert [each["id"] for each in report["violations"]] == []
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".entry.user")
    await find(page, "Saturdays")
    await page.wait_for_selector(".palette [role=option]:has-text('Saturdays') >> text=memory")
    await page.keyboard.press("ArrowUp")  # the last line looks in everything
    await page.keyboard.press("Enter")
    await page.wait_for_selector("section:has-text('Memories') mark")
    run = server.request("/api/runs?limit=1")["items"][0]
    await find(page, run["id"])
    await page.wait_for_selector(".palette [role=option] small:text-is('run')")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("aside .waterfall")
    assert page.url.endswith(f"/{run['id']}?side=steps")
    await page.keyboard.press("Control+k")
    await page.wait_for_selector(".palette")
    await page.keyboard.press("Escape")
    await page.wait_for_selector(".palette", state="detached")
