from holdfast.domain.content import Json
from holdfast.domain.plan import MAX_TODO_ITEMS, MAX_TODO_TEXT_CHARS
from holdfast.tools.builtin.notes import TODO_READ, TODO_WRITE
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ToolResult
from tests.support.calls import a_call


async def test_a_written_list_is_read_back() -> None:
    items = [{"text": "read", "done": True}, {"text": "write"}]
    wrote = await TODO_WRITE.run(a_call(), {"items": items})
    assert wrote.content == {"items": 2, "done": 1}
    assert wrote.values == {"todo": {"items": [{"text": "read", "done": True}, {"text": "write", "done": False}]}}
    assert await TODO_READ.run(a_call(values=wrote.values), {}) == ToolResult(content=wrote.values["todo"])


async def test_a_run_without_a_list_has_an_empty_one() -> None:
    assert await TODO_READ.run(a_call(), {}) == ToolResult(content={"items": []})


async def test_writing_replaces_the_whole_list() -> None:
    before = (await TODO_WRITE.run(a_call(), {"items": [{"text": "a"}]})).values
    assert (await TODO_WRITE.run(a_call(values=before), {"items": []})).values == {"todo": {"items": []}}


async def test_an_invalid_list_is_refused() -> None:
    too_many: Json = [{"text": "a"}] * (MAX_TODO_ITEMS + 1)
    for items in (
        too_many,
        [{"text": ""}],
        [{"text": " "}],
        [{"text": "x" * (MAX_TODO_TEXT_CHARS + 1)}],
        [{"text": "a\x00"}],
    ):
        outcome = await with_standard_middleware(TODO_WRITE).run(a_call(), {"items": items})
        assert outcome.failed
        assert outcome.values == {}


async def test_an_unreadable_list_value_is_an_error() -> None:
    outcome = await with_standard_middleware(TODO_READ).run(a_call(values={"todo": {"items": 5}}), {})
    assert outcome.failed
    assert outcome.content.startswith("INVALID: the `todo` of this run cannot be read")
