import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import NotFound
from holdfast.domain.tool import ToolInterrupt, ToolReply
from holdfast.ports.runtime import ToolListing
from holdfast.tools.remote_tools import remote_tools
from holdfast.tools.tool import InterruptResolved, InterruptWait, Preempted, ResumableTool, ResumeCause, ToolResult
from tests.support.calls import KEY, a_call, a_lease, a_spec


class Elsewhere:
    """`RemoteTools` with one tool that works and one that is gone."""

    def __init__(self) -> None:
        self.called: list[tuple[int, str, dict[str, Json], str]] = []
        self.answered: list[tuple[str, ToolInterrupt, Json]] = []

    async def list(self, lease: Lease) -> ToolListing:
        return ToolListing(tools=[a_spec("look", output_limit=150), a_spec("gone")])

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        self.called.append((lease.number, name, arguments, key))
        if name == "gone":
            raise NotFound("there is no tool `gone`")
        if "ask" in arguments:
            return ToolReply(content=None, interrupt=ToolInterrupt(message=arguments["ask"], state={"at": 1}))
        return ToolReply(content=arguments.get("say"), failed="fail" in arguments)

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        self.answered.append((key, interrupt, response))
        return ToolReply(content=response)

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        raise NotFound(f"the tool `{name}` has not changed")


async def test_a_remote_tool_is_called_with_the_lease_and_key_of_the_call() -> None:
    elsewhere = Elsewhere()
    look, _ = remote_tools((await elsewhere.list(a_lease())).tools, elsewhere)
    assert look.spec == a_spec("look", output_limit=150, untrusted=True)
    assert await look.run(a_call(), {"say": [1]}) == ToolResult(content=[1], untrusted="tool:look")
    assert elsewhere.called == [(7, "look", {"say": [1]}, KEY)]


async def test_a_remote_failure_is_a_failed_result() -> None:
    look, gone = remote_tools((await Elsewhere().list(a_lease())).tools, Elsewhere())
    assert await look.run(a_call(), {"say": "no", "fail": True}) == ToolResult(
        content="no", failed=True, untrusted="tool:look"
    )
    assert await gone.run(a_call(), {}) == ToolResult(
        content="NOT_FOUND: there is no tool `gone`", failed=True, untrusted="tool:gone"
    )


async def test_a_remote_output_is_bounded_too() -> None:
    look, _ = remote_tools((await Elsewhere().list(a_lease())).tools, Elsewhere())
    outcome = await look.run(a_call(), {"say": "x" * 1000})
    assert len(outcome.content) <= 150
    assert outcome.artifacts[0].content == "x" * 1000


async def test_an_input_request_is_an_interrupt_and_is_stored_until_the_call_settles() -> None:
    elsewhere = Elsewhere()
    look, _ = remote_tools((await elsewhere.list(a_lease())).tools, elsewhere)
    waiting = await look.run(a_call(), {"ask": "who?"})
    assert isinstance(waiting.wait, InterruptWait)
    assert waiting.wait.interrupt.message == "who?"
    pending = waiting.revisions["questions"](None)
    assert isinstance(look, ResumableTool)
    outcome = await look.resume(
        a_call(values={"questions": pending}), {"ask": "who?"}, InterruptResolved(response="Ada")
    )
    assert (outcome.content, outcome.wait) == ("Ada", None)
    assert elsewhere.answered == [(KEY, ToolInterrupt(message="who?", state={"at": 1}), "Ada")]
    assert outcome.revisions["questions"](pending) is None


@pytest.mark.parametrize("cause", [InterruptResolved(response="late", expired=True), Preempted()])
async def test_an_unanswered_input_request_resumes_without_a_response(cause: ResumeCause) -> None:
    elsewhere = Elsewhere()
    look, _ = remote_tools((await elsewhere.list(a_lease())).tools, elsewhere)
    pending = (await look.run(a_call(), {"ask": "who?"})).revisions["questions"](None)
    assert isinstance(look, ResumableTool)
    await look.resume(a_call(values={"questions": pending}), {}, cause)
    assert [response for _, _, response in elsewhere.answered] == [None]


async def test_an_input_request_of_another_run_is_ignored() -> None:
    elsewhere = Elsewhere()
    look, _ = remote_tools((await elsewhere.list(a_lease())).tools, elsewhere)
    pending = {**(await look.run(a_call(), {"ask": "who?"})).revisions["questions"](None), "run_id": "run_other"}
    assert isinstance(look, ResumableTool)
    outcome = await look.resume(a_call(values={"questions": pending}), {}, InterruptResolved(response="Ada"))
    assert (outcome.failed, elsewhere.answered) == (True, [])
