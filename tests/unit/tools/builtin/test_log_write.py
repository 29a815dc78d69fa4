from holdfast.domain.events.custom import AgentLogged
from holdfast.tools.builtin.notes import LOG_WRITE, MAX_LOG_MESSAGE_CHARS
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ToolResult
from tests.support.calls import a_call


async def test_a_line_is_written_into_the_log() -> None:
    outcome = await LOG_WRITE.run(a_call(), {"message": "halfway"})
    assert outcome == ToolResult(content={"logged": True}, events=[AgentLogged(message="halfway")])


async def test_an_invalid_line_is_refused() -> None:
    for message in ("", "x" * (MAX_LOG_MESSAGE_CHARS + 1), "a\x00b"):
        outcome = await with_standard_middleware(LOG_WRITE).run(a_call(), {"message": message})
        assert outcome.failed
        assert outcome.events == ()
