"""Agents on the web: permitted hosts, approvals and search."""

from collections.abc import AsyncIterator

import pytest
from msgspec.json import encode

from holdfast.domain.content import Json
from holdfast.domain.run import Run, RunStatus
from holdfast.sandbox.processes import SupervisedProcesses
from holdfast.tools.builtin.web import web_fetch
from holdfast.tools.tool import Tool
from holdfast.tools.web.fetch import MarkdownConverter
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say
from tests.support.web_server import StubWeb, WebPage, WebServer


@pytest.fixture
async def site() -> AsyncIterator[WebServer]:
    pages = {
        "/": WebPage(body=b"<p>tea</p>"),
        "/away": WebPage(status=302, headers={"Location": "http://other.org/"}),
        "/search": WebPage(body=encode({"results": [{"title": "Tea", "url": "http://a/"}]})),
    }
    async with WebServer(pages) as server:
        yield server


@pytest.fixture
def fetch(site: WebServer) -> Tool:
    """Return `web_fetch` on a stub web with three hosts."""
    web = StubWeb({"example.com": site, "docs.example.com": site, "other.org": site})
    return web_fetch(web.http(), MarkdownConverter(SupervisedProcesses()))


def fetching(url: str) -> dict[str, Json]:
    """Return a turn in which the model fetches a URL."""
    return calling(call("web_fetch", url=url))


async def results(runtime: AgentRuntime, run: Run) -> list[str]:
    """Return the tool results of a run."""
    return [text.removeprefix("tool: ") for text in await runtime.texts(run) if text.startswith("tool: ")]


async def test_an_unknown_host_needs_approval_and_a_grant_covers_the_host(
    workspace: AgentWorkspace, fetch: Tool
) -> None:
    workspace.agent(
        fetching("http://example.com/"), fetching("http://docs.example.com/"), say("done"), tools=["web_fetch"]
    )
    async with workspace.open(fetch) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert interrupt.metadata["offers"] == [["web_fetch(domain:example.com)"]]
        response = {"decision": "always"}
        await runtime.runs.respond(SPACE, run.id, response, interrupt=interrupt.id, digest=interrupt.digest)
        assert (await runtime.wait_until_ended(run)).output == "done"
        assert await results(runtime, run) == [
            "[http://example.com/; text/html]\ntea",
            "[http://docs.example.com/; text/html]\ntea",
        ]


async def test_a_redirect_is_decided_again(workspace: AgentWorkspace, fetch: Tool) -> None:
    redirect_results: dict[str, str] = {}
    rules: dict[str, dict[str, Json]] = {
        "asked": {"allow": ["web_fetch(domain:example.com)"]},
        "denied": {"allow": ["web_fetch"], "deny": ["web_fetch(domain:other.org)"]},
        "allowed": {"allow": ["web_fetch"]},
    }
    for name, permissions in rules.items():
        turn = fetching("http://example.com/away")
        workspace.agent(turn, say("done"), name=name, tools=["web_fetch"], permissions=permissions)
    async with workspace.open(fetch) as runtime:
        for name in rules:
            (redirect_results[name],) = await results(runtime, await runtime.run_to_end(agent=name))
    assert redirect_results == {
        "asked": "INVALID: it redirects to another host, `http://other.org/`: fetch that if you want it",
        "denied": "INVALID: it redirects to `other.org`, which the rules deny",
        "allowed": "[http://other.org/; text/html]\ntea",
    }


async def test_web_search_exists_only_with_a_configured_engine(workspace: AgentWorkspace, site: WebServer) -> None:
    workspace.agent(say("hello"), tools=["web_search", "log_write"])
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert [tool["name"] for tool in (await runtime.context(run)).tools] == ["log_write"]
    url = f"http://127.0.0.1:{site.port}/search"
    workspace.write("settings.json", {"web": {"search": {"type": "searxng", "url": url}}})
    workspace.script(calling(call("web_search", query="tea")), say("found"))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert await results(runtime, run) == ['{"results":[{"title":"Tea","url":"http://a/","snippet":""}]}']
        assert [tool["name"] for tool in (await runtime.context(run)).tools] == ["web_search", "log_write"]


async def test_local_addresses_are_fetched_only_if_the_settings_allow_them(
    workspace: AgentWorkspace, site: WebServer
) -> None:
    url = f"http://127.0.0.1:{site.port}/"
    workspace.agent(fetching(url), say("done"), tools=["web_fetch"], permissions={"allow": ["web_fetch"]})
    async with workspace.open() as runtime:
        assert await results(runtime, await runtime.run_to_end()) == [
            "INVALID: `127.0.0.1` is not on the public internet: it is not fetched"
        ]
    assert site.connections == 0
    workspace.write("settings.json", {"web": {"allow_private": [f"127.0.0.1:{site.port}"]}})
    async with workspace.open() as runtime:
        assert await results(runtime, await runtime.run_to_end()) == [f"[{url}; text/html]\ntea"]


@pytest.mark.parametrize("own", [True, False])
async def test_beyond_the_tool_limit_only_core_tools_are_shown_until_others_are_activated(
    workspace: AgentWorkspace, own: bool
) -> None:
    activate: dict[str, Json] = {"name": "tool_activate", "arguments": {"name": "sleep"}}
    workspace.agent(calling(call("tool_search", query="wait a while")), calling(activate), say("done"))
    tools: list[Json] = ["ask_user", "sleep", "log_write"]
    workspace.write("settings.json", {"context": {"tools_shown": 100 if own else 2}})
    workspace.configure(tools=tools, tools_shown=2 if own else None)
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        shown = [sorted(tool["name"] for tool in (await runtime.context(run, at)).tools) for at in range(3)]
        assert '"name":"sleep"' in (await results(runtime, run))[0]
        next_run = await runtime.start("and now", thread=run.thread_id)
        after = sorted(
            tool["name"] for tool in (await runtime.context(await runtime.wait_until_ended(next_run), 0)).tools
        )
    core = ["ask_user", "tool_activate", "tool_search"]
    assert (run.status, shown) == (RunStatus.COMPLETED, [core, core, sorted([*core, "sleep"])])
    assert after == core  # an activation applies to one run only
