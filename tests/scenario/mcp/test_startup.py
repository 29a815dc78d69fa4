"""A server that does not start: the run, its model and the log say what failed, and what to do."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.events.custom import McpServerUnavailable
from holdfast.domain.mcp_server import McpServer
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import AgentWorkspace, say
from tests.scenario.mcp.declaring import PLAIN, READS, agent, program
from tests.scenario.mcp.test_servers import ONE, RUN, opened
from tests.unit.sandbox.confined import need_sandbox

OFFLINE = 'echo "npm error request to the registry failed, reason: getaddrinfo EAI_AGAIN" >&2; exit 1'


async def failure_of(workspace: AgentWorkspace, declared: dict[str, Json]) -> McpServerUnavailable:
    """Return the event of a run whose server does not start."""
    agent(workspace, mcp_servers={"plain": declared})
    workspace.script(say("done"))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert run.status is RunStatus.COMPLETED
        (failure,) = await runtime.custom_events(run, McpServerUnavailable)
        context = await runtime.context(run)
    assert "`mcp__plain__*`" in str(context)
    return failure


async def test_a_server_that_does_not_start_is_an_event_of_the_run_a_line_of_the_log_and_told_to_the_model(
    workspace: AgentWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    await need_sandbox()
    with caplog.at_level(logging.WARNING, logger="holdfast.mcp"):
        failure = await failure_of(workspace, {"command": "sh", "args": ["-c", OFFLINE]})
    assert failure.server == "plain"
    assert failure.message == "the MCP server `plain` failed: it ended (exit code 1)"
    assert "EAI_AGAIN" in str(failure.stderr)
    assert failure.remedy == 'set `"network": true` in its declaration: its sandbox has no network'
    (line,) = [record.getMessage() for record in caplog.records if "EAI_AGAIN" in record.getMessage()]
    assert line.startswith(failure.message)
    assert str(failure.remedy) in line


async def test_the_model_is_not_shown_what_a_server_writes(workspace: AgentWorkspace) -> None:
    agent(workspace, mcp_servers={"plain": {"command": "sh", "args": ["-c", OFFLINE], "sandbox": "off"}})
    workspace.script(say("done"))
    async with workspace.open() as runtime:
        context = await runtime.context(await runtime.run_to_end())
    assert "EAI_AGAIN" not in str(context)


async def test_a_path_that_the_sandbox_hides_is_named_with_the_setting_that_shows_it(
    workspace: AgentWorkspace,
) -> None:
    await need_sandbox()
    hidden = workspace.folder / "library.json"
    hidden.write_text("{}")
    failure = await failure_of(workspace, {"command": "cat", "args": [str(hidden)]})
    assert failure.remedy == f'add `"reads": ["{hidden}"]` to its declaration: its sandbox does not show that path'


@pytest.mark.parametrize("sandbox", ["on", "off"])
async def test_a_program_that_is_not_found_is_named_with_the_searched_folders(
    workspace: AgentWorkspace, sandbox: str
) -> None:
    if sandbox == "on":
        await need_sandbox()
    failure = await failure_of(workspace, {"command": "no-such-program", "sandbox": sandbox})
    assert "`no-such-program` was not found" in failure.message
    assert failure.remedy == "install it, or give its absolute path as `command`"


async def test_a_missing_variable_and_a_missing_module_have_their_own_remedies(workspace: AgentWorkspace) -> None:
    await need_sandbox()
    headers = {"Authorization": "Bearer ${NO_SUCH_VARIABLE}"}
    failure = await failure_of(workspace, {"url": "http://127.0.0.1:9/mcp", "headers": headers})
    assert failure.message == "the MCP server `plain` failed: there is no environment variable `NO_SUCH_VARIABLE`"
    assert failure.remedy == "set it for Holdfast, or remove it from the server's declaration"
    failure = await failure_of(workspace, {"command": "python3", "args": ["-c", "import no_such_module"]})
    remedy = "give as `command` the path of a Python that has `no_such_module`, such as that of a venv"
    assert failure.remedy == remedy


async def test_an_address_that_does_not_answer_is_named(workspace: AgentWorkspace) -> None:
    failure = await failure_of(workspace, {"url": "http://127.0.0.1:9/mcp"})
    assert failure.message == "the MCP server `plain` failed: nothing answers at `http://127.0.0.1:9/`"
    assert failure.remedy == "check that a server listens at that address, and the `headers` that it expects"


async def test_secrets_are_redacted_from_the_stderr_of_a_server(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PLAIN_PHRASE", "open sesame 789")
    script = 'echo "refused: $PHRASE" >&2; exit 1'
    declared: dict[str, Json] = {"command": "sh", "args": ["-c", script], "env": {"PHRASE": "${PLAIN_PHRASE}"}}
    failure = await failure_of(workspace, {**declared, "sandbox": "off"})
    assert failure.stderr == "refused: [redacted]"
    assert "open sesame 789" not in caplog.text


async def test_a_server_that_hangs_reports_what_it_has_written_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import sys, time; print('waiting for the moon', file=sys.stderr, flush=True); time.sleep(3600)"
    async with opened(tmp_path) as servers:
        server = servers.get(ONE, "plain", McpServer(command=sys.executable, args=["-c", script], sandbox="off"))
        listing = asyncio.ensure_future(server.tools())
        async with asyncio.timeout(60):
            while (failure := server.failure()) is None or failure.stderr != "waiting for the moon":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert failure.message == "the MCP server `plain` has not started yet"
    assert await listing == ()


async def test_a_server_that_hangs_without_the_network_is_logged_with_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await need_sandbox()
    script = "echo 'getaddrinfo EAI_AGAIN registry.example: retrying' >&2; sleep 3600"
    async with opened(tmp_path) as servers:
        server = servers.get(ONE, "plain", McpServer(command="sh", args=["-c", script]))
        listing = asyncio.ensure_future(server.tools())
        async with asyncio.timeout(60):
            while (failure := server.failure()) is None or not failure.stderr:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert failure.remedy == 'set `"network": true` in its declaration: its sandbox has no network'
        server._wait_until = 0.0
        assert await server.tools() == ()
        assert 'has not started yet: set `"network": true`' in caplog.text
        assert "EAI_AGAIN" in caplog.text
    assert await listing == ()


async def test_the_log_says_that_a_server_is_being_started_and_once_that_it_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holdfast.mcp.server.LIST_TIMEOUT_SECONDS", 0.0)
    declared = McpServer(command=sys.executable, args=["-c", "import time; time.sleep(3600)"], sandbox="off")
    with caplog.at_level(logging.INFO, logger="holdfast.mcp"):
        async with opened(tmp_path) as servers:
            for _ in range(3):
                assert await servers.get(ONE, "plain", declared).tools() == ()
            assert caplog.messages == [
                "connecting to the MCP server `plain`",
                "the MCP server `plain` has not started yet; runs go on without its tools",
            ]


async def test_a_program_of_the_path_of_holdfast_is_found_and_readable_in_the_sandbox(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await need_sandbox()
    tool = tmp_path / "tools" / "bin" / "plain-server"
    tool.parent.mkdir(parents=True)
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -I {PLAIN} "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    agent(workspace, mcp_servers={"plain": {"command": "plain-server", "reads": READS}})
    workspace.script(say("done"))
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert await runtime.custom_events(run, McpServerUnavailable) == []
        assert "mcp__plain__echo" in [tool["name"] for tool in (await runtime.context(run)).tools]


async def test_a_file_beside_other_files_does_not_make_them_readable(tmp_path: Path) -> None:
    from holdfast.mcp.launcher import program_paths

    program_file = tmp_path / "home" / "server"
    program_file.parent.mkdir()
    program_file.touch(mode=0o755)
    assert program_paths(program_file) == [program_file]


async def test_the_failure_of_a_server_that_was_reached_is_not_a_failure_to_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as servers:
        server = servers.get(ONE, "plain", McpServer(**program(PLAIN, cwd=None)))
        assert len(await server.tools()) > 10
        assert server.failure() is None
        with pytest.raises(McpServerFailed, match="exit code 3"):
            await server.call(RUN, "die", {"text": ""}, key="k")
        assert server.failure() is None
