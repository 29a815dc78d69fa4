from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import NotFound
from holdfast.domain.tool import Reply, ToolSpec
from holdfast.testing.calls import KEY, a_call, a_lease, a_spec
from holdfast.tools.remote import remote_tools
from holdfast.tools.tool import Outcome


class Elsewhere:
    """`RemoteTools` with one tool that works and one that is gone."""

    def __init__(self) -> None:
        self.called: list[tuple[int, str, dict[str, Json], str]] = []

    async def list(self, lease: Lease) -> list[ToolSpec]:
        return [a_spec("look", output_limit=150), a_spec("gone")]

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> Reply:
        self.called.append((lease.number, name, arguments, key))
        if name == "gone":
            raise NotFound("there is no tool `gone`")
        return Reply(content=arguments.get("say"), failed="fail" in arguments)


async def test_a_remote_tool_is_called_in_the_name_of_the_lease_under_the_key_of_the_call() -> None:
    elsewhere = Elsewhere()
    look, _ = remote_tools(await elsewhere.list(a_lease()), elsewhere)
    assert look.spec == a_spec("look", output_limit=150)
    assert await look.run(a_call(), {"say": [1]}) == Outcome(content=[1])
    assert elsewhere.called == [(7, "look", {"say": [1]}, KEY)]


async def test_what_fails_there_fails_here() -> None:
    look, gone = remote_tools(await Elsewhere().list(a_lease()), Elsewhere())
    assert await look.run(a_call(), {"say": "no", "fail": True}) == Outcome(content="no", failed=True)
    assert await gone.run(a_call(), {}) == Outcome(content="NOT_FOUND: there is no tool `gone`", failed=True)


async def test_a_remote_output_is_bounded_too() -> None:
    look, _ = remote_tools(await Elsewhere().list(a_lease()), Elsewhere())
    outcome = await look.run(a_call(), {"say": "x" * 1000})
    assert len(outcome.content) <= 150
    assert outcome.artifacts[0].content == "x" * 1000
