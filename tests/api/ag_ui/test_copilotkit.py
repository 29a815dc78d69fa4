"""CopilotKit works with an agent: its React hooks and its runtime, over the real packages."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.content import Json
from tests.api.ag_ui.driver import NodeProcess, driving, need_client
from tests.api.site import Site
from tests.architecture.project import ROOT

SOURCE: Final = Path(__file__).parent / "copilotkit"
INSTALLED: Final = ROOT / ".venv" / "copilotkit"


class Page:
    """A page with a chat."""

    def __init__(self, process: NodeProcess, site: Site, name: str) -> None:
        self._process = process
        self._site = site
        self._name = name
        self._numbers = count(1)
        self.shown: dict[str, Json] = {}

    async def open(self, agent: str) -> None:
        """Open the page on a new thread of an agent."""
        self.shown = await self._process.send("open", name=self._name, url=self._site.url, agent=agent)

    async def say(self, text: str) -> None:
        """Send a message, and wait until the agent has answered or asks."""
        id = f"{self._name}-{next(self._numbers)}"
        self.shown = await self._process.send("say", name=self._name, id=id, text=text)

    async def press(self, button: str) -> None:
        """Press a button of the question, and wait until the agent has answered or asks again."""
        self.shown = await self._process.send("press", name=self._name, button=button)

    @property
    def lines(self) -> list[str]:
        """The messages on the page."""
        assert self.shown["errors"] == []
        lines: list[str] = self.shown["lines"]
        return lines

    @property
    def questions(self) -> list[str]:
        """The questions on the page."""
        questions: list[str] = self.shown["questions"]
        return questions

    @property
    def requests(self) -> list[dict[str, Json]]:
        """The requests of the runtime."""
        requests: list[dict[str, Json]] = self.shown["requests"]
        return requests

    async def stored_ids(self) -> list[str]:
        """Return the ids of the messages that the server has, on its newest branch."""
        items = (await self._site.get(f"/api/threads/{self.shown['threadId']}/messages"))["items"]
        return [each["id"] for each in items]

    @property
    def ids(self) -> list[str]:
        """The ids of the messages that the page has."""
        return [each["id"] for each in self.shown["messages"]]


@pytest.fixture(scope="module")
async def copilotkit() -> AsyncIterator[NodeProcess]:
    """Yield the process of all pages."""
    need_client()
    async with driving(NodeProcess, SOURCE, INSTALLED) as process:
        yield process


PAGES: Final = count(1)


async def open_page(process: NodeProcess, site: Site, agent: str) -> Page:
    page = Page(process, site, f"page-{next(PAGES)}-{agent}")
    await page.open(agent)
    return page


async def test_a_page_shows_the_answers_and_every_turn_continues_the_last(site: Site, copilotkit: NodeProcess) -> None:
    page = await open_page(copilotkit, site, "bot")
    for text in ("one", "two", "three"):
        await page.say(text)
    assert page.lines == [
        line for text in ("one", "two", "three") for line in (f"user: {text}", "assistant: hello you")
    ]
    assert page.ids == await page.stored_ids()


async def test_an_approved_call_runs_and_the_run_continues_under_its_id(site: Site, copilotkit: NodeProcess) -> None:
    page = await open_page(copilotkit, site, "careful")
    await page.say("note it")
    assert len(page.questions) == 1
    await page.press("approve")
    assert page.questions == []
    (said, _, result, answer), (asked, resumed) = page.lines, page.requests
    assert (said, answer) == ("user: note it", "assistant: noted")
    assert asked["runId"] == resumed["runId"] and len(resumed["resume"]) == 1
    stored = (await site.get(f"/api/threads/{page.shown['threadId']}/messages"))["items"]
    assert result == f"tool: {stored[2]['content']}"
    assert page.ids == [each["id"] for each in stored]
    await page.say("again")
    await page.press("approve")
    assert page.ids == await page.stored_ids()
    assert len(page.ids) == 8


async def test_a_cancelled_question_denies_the_call(site: Site, copilotkit: NodeProcess) -> None:
    page = await open_page(copilotkit, site, "careful")
    await page.say("note it")
    await page.press("cancel")
    assert page.questions == []
    assert "refused" in page.lines[2]
    assert page.ids == await page.stored_ids()


async def test_questions_one_after_the_other_are_answered_under_one_id(site: Site, copilotkit: NodeProcess) -> None:
    page = await open_page(copilotkit, site, "insisting")
    await page.say("go")
    for question in ("once?", "twice?"):
        assert page.questions == [question]
        await page.press("answer")
    assert page.lines[-1] == "assistant: at last"
    assert len({request["runId"] for request in page.requests}) == 1
    assert page.ids == await page.stored_ids()


async def test_a_tool_of_the_page_runs_and_its_result_keeps_its_id(site: Site, copilotkit: NodeProcess) -> None:
    page = await open_page(copilotkit, site, "picker")
    await page.say("pick")
    assert page.lines == ["user: pick", "assistant: one moment", "tool: red", "assistant: so be it"]
    assert page.ids == await page.stored_ids()
    await page.say("once more")
    assert page.ids == await page.stored_ids()
    assert len(page.ids) == 8
