"""Secrets reach neither the log of a run nor that of the server."""

import io
import logging

import pytest

from holdfast.bootstrap.logs import JsonLogFormatter, RedactingFormatter, TextLogFormatter
from holdfast.domain.run import RunStatus
from holdfast.tools.redaction import REDACTED, Redaction
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

SECRET = "very-secret-value"


async def test_a_key_in_an_error_of_a_provider_is_redacted(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    workspace.agent({"error": {"code": "REFUSED", "message": f"the key {SECRET} is wrong"}})
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert run.status is RunStatus.FAILED
        assert run.error is not None
        assert f"the key {REDACTED} is wrong" in run.error.message
        assert SECRET not in repr(await runtime.events(run))


async def test_a_key_in_a_file_is_redacted(workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    workspace.agent(calling(call("read_file", path="notes")), say("done"), tools=["read_file"])
    workspace.write("files/notes", f"the key is {SECRET}\n")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert REDACTED in repr(await runtime.messages(run))
        assert SECRET not in repr([*await runtime.messages(run), *await runtime.events(run)])


@pytest.mark.parametrize("lines", [TextLogFormatter(), JsonLogFormatter()])
def test_a_key_in_a_log_line_is_redacted(lines: logging.Formatter) -> None:
    written = io.StringIO()
    sink = logging.StreamHandler(written)
    sink.setFormatter(RedactingFormatter(lines, Redaction([SECRET])))
    logger = logging.Logger("test")
    logger.addHandler(sink)
    try:
        raise ValueError(SECRET)
    except ValueError:
        logger.exception("it is %s", SECRET)
    assert written.getvalue().count(REDACTED) >= 2
    assert SECRET not in written.getvalue()


async def test_provider_keys_are_redacted_in_the_server_log(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", SECRET)
    provider = {"api": "openai", "base_url": "http://127.0.0.1:1", "api_key_env": "MINE"}
    workspace.write("settings.json", {"providers": {"mine": provider}})
    workspace.agent(say("hello"))
    root = logging.getLogger()
    before = root.handlers[:]
    sink = logging.StreamHandler(io.StringIO())
    sink.setFormatter(RedactingFormatter(TextLogFormatter(), Redaction()))
    root.addHandler(sink)
    try:
        async with workspace.open():
            root.error("it is %s", SECRET)
    finally:
        root.handlers[:] = before
    assert REDACTED in sink.stream.getvalue()
    assert SECRET not in sink.stream.getvalue()
