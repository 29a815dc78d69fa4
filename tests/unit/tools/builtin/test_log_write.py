from holdfast.domain.events.custom import AgentLogged
from holdfast.testing.calls import a_call
from holdfast.tools.builtin.log_write import LOG_WRITE, MAX_MESSAGE
from holdfast.tools.tool import Outcome
from holdfast.tools.wrapped import wrapped


async def test_a_line_is_written_into_the_log() -> None:
    outcome = await LOG_WRITE.run(a_call(), {"message": "halfway"})
    assert outcome == Outcome(content={"logged": True}, events=[AgentLogged(message="halfway")])


async def test_a_line_that_cannot_be_kept_is_refused() -> None:
    for message in ("", "x" * (MAX_MESSAGE + 1), "a\x00b"):
        outcome = await wrapped(LOG_WRITE).run(a_call(), {"message": message})
        assert outcome.failed
        assert outcome.events == ()
