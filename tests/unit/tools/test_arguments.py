from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolSpec
from holdfast.testing.calls import Recorder, a_call, a_spec
from holdfast.tools.arguments import MAX_PROBLEM, MAX_PROBLEMS, MAX_SAMPLE, check_arguments, read
from holdfast.tools.built_ins import SPECS
from holdfast.tools.builtin import (
    agent_message,
    agent_send,
    agent_spawn,
    ask_user,
    bash,
    create_artifact,
    edit_file,
    glob,
    grep,
    list_dir,
    log_write,
    plan_block,
    plan_cancel,
    plan_check,
    plan_complete,
    plan_create,
    plan_start,
    plan_update,
    read_file,
    sleep,
    task_create,
    task_respond,
    task_spawn,
    task_status,
    task_subscribe,
    todo_read,
    todo_write,
    tool_activate,
    tool_search,
    web_fetch,
    web_search,
    write_file,
)
from holdfast.tools.checked import checked
from holdfast.tools.schema import Arguments

TAKEN: Final[dict[str, type[Arguments]]] = {
    "agent_message": agent_message.AgentMessage,
    "agent_send": agent_send.AgentSend,
    "agent_spawn": agent_spawn.AgentSpawn,
    "ask_user": ask_user.AskUser,
    "bash": bash.Bash,
    "create_artifact": create_artifact.CreateArtifact,
    "edit_file": edit_file.EditFile,
    "glob": glob.Glob,
    "grep": grep.Grep,
    "list_dir": list_dir.ListDir,
    "log_write": log_write.LogWrite,
    "plan_block": plan_block.PlanBlock,
    "plan_cancel": plan_cancel.PlanCancel,
    "plan_check": plan_check.PlanCheck,
    "plan_complete": plan_complete.PlanComplete,
    "plan_create": plan_create.PlanCreate,
    "plan_start": plan_start.PlanStart,
    "plan_update": plan_update.PlanUpdate,
    "read_file": read_file.ReadFile,
    "sleep": sleep.Sleep,
    "task_create": task_create.TaskCreate,
    "task_respond": task_respond.TaskRespond,
    "task_spawn": task_spawn.TaskSpawn,
    "task_status": task_status.TaskStatus,
    "task_subscribe": task_subscribe.TaskSubscribe,
    "todo_read": todo_read.TodoRead,
    "todo_write": todo_write.TodoWrite,
    "tool_activate": tool_activate.ToolActivate,
    "tool_search": tool_search.ToolSearch,
    "web_fetch": web_fetch.WebFetch,
    "web_search": web_search.Search,
    "write_file": write_file.WriteFile,
}

JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=5)
    | st.sampled_from(["medium", "high", "code", "a title"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["text", "done", "title"]) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def calls_of_built_ins(draw: st.DrawFn) -> tuple[ToolSpec, dict[str, Json]]:
    """Draw a built-in and arguments that look more or less like its own."""
    spec = draw(st.sampled_from(SPECS))
    names = sorted(spec.parameters["properties"])
    given: dict[str, Json] = {name: draw(JSON) for name in spec.parameters.get("required", ())}
    given |= draw(
        st.dictionaries(st.sampled_from(names) | st.text(max_size=3) if names else st.text(), JSON, max_size=3)
    )
    for name in draw(st.sets(st.sampled_from(sorted(given)) if given else st.nothing())):
        given[name] = draw(_fitting(spec.parameters["properties"].get(name, {})))
    return spec, given


def _fitting(schema: dict[str, Json]) -> st.SearchStrategy[Json]:
    kinds: dict[Json, st.SearchStrategy[Any]] = {
        "integer": st.integers(0, 9) | st.integers(0, 9).map(float),
        "number": st.integers(1, 9) | st.floats(0.5, 9),
        "string": st.sampled_from(schema.get("enum", ["some words"])),
        "boolean": st.booleans(),
        "array": st.lists(st.just("some words") | st.just({"text": "some words"}), max_size=2),
    }
    return kinds.get(schema.get("type"), JSON)


@settings(max_examples=300)
@given(calls_of_built_ins())
async def test_whatever_the_arguments_a_tool_sees_only_those_that_fit(asked: tuple[ToolSpec, dict[str, Json]]) -> None:
    spec, arguments = asked
    tool = Recorder(spec=spec)
    outcome = await checked(tool).run(a_call(), arguments)
    if outcome.failed:
        assert tool.asked == []
        assert outcome.content.startswith(f"INVALID: the arguments of `{spec.name}` ")
        assert len(outcome.content) < (MAX_PROBLEMS + 1) * (MAX_PROBLEM + MAX_SAMPLE + 10)
    else:
        assert tool.asked == [arguments]
        jsonschema_rs.validate(spec.parameters, arguments)
        taken = read(arguments, TAKEN[spec.name])
        assert msgspec.convert(msgspec.to_builtins(taken), TAKEN[spec.name]) == taken


def test_every_built_in_is_among_those_checked() -> None:
    assert sorted(TAKEN) == [spec.name for spec in SPECS]


NESTED: Final = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "maxItems": 20,
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string", "maxLength": 3}, "kind": {"enum": ["a", "b"]}},
                "required": ["text"],
                "additionalProperties": False,
            },
        },
        "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
        "one": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    },
    "required": ["items"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "- `arguments`: `items` is missing"),
        ({"items": [], "colour": 1}, "- `arguments`: it does not take `colour`"),
        ({"items": 5}, "- `items`: it must be array; got 5"),
        ({"items": [{"text": "a"}, {"text": "long"}]}, '- `items[1].text`: it is longer than 3 characters; got "long"'),
        ({"items": [{"text": None}]}, "- `items[0].text`: it must be string; got null"),
        ({"items": [{"text": "a", "kind": "c"}]}, '- `items[0].kind`: it is not one of "a" or "b"; got "c"'),
        ({"items": [{}]}, "- `items[0]`: `text` is missing"),
        (
            {"items": [], "either": ["a", 5]},
            '- `either`: it must be integer, or `either[1]`: it must be string; got ["a",5]',
        ),
        ({"items": [], "one": 1}, "- `one`: it is valid under more than one of the schemas"),
    ],
)
def test_a_problem_says_where_it_is_what_was_expected_and_what_was_given(arguments: dict[str, Json], told: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_arguments(a_spec("paint", parameters=NESTED), arguments)
    first, problem, *_, last = caught.value.message.splitlines()
    assert (first, last) == ("the arguments of `paint` do not fit:", "correct them and call it again")
    assert problem.startswith(told)


def test_only_the_first_problems_are_told() -> None:
    with pytest.raises(Invalid) as caught:
        check_arguments(a_spec(parameters=NESTED), {"items": [{}] * 20})
    assert caught.value.message.count("is missing") == MAX_PROBLEMS
    assert "- and more" in caught.value.message


def test_what_was_given_is_shown_in_part() -> None:
    with pytest.raises(Invalid) as caught:
        check_arguments(a_spec(parameters=NESTED), {"items": "x" * 100_000, "y" * 100_000: 1})
    assert len(caught.value.message) < 1_000


@pytest.mark.parametrize("arguments", [{"a": "\ud800"}, {"\udfff": 1}, {"a": object()}], ids=["text", "name", "object"])
def test_what_is_no_json_is_refused(arguments: dict[str, Json]) -> None:
    with pytest.raises(Invalid, match="the arguments of `look` are no JSON"):
        check_arguments(a_spec(), arguments)


def test_arguments_that_are_nested_too_deep_are_refused() -> None:
    deep: Json = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(Invalid, match="are no JSON"):
        check_arguments(a_spec(), deep)


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "objekt"},
        {"type": "object", "properties": {"a": {"$ref": "https://localhost/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_schema_that_is_none_or_points_elsewhere_is_refused(parameters: dict[str, Json]) -> None:
    with pytest.raises(Invalid, match="`look` cannot be called: its parameters are no JSON Schema"):
        check_arguments(a_spec(parameters=parameters), {})


@pytest.mark.parametrize("task_id", [2, 2.0])
def test_a_whole_number_is_an_integer_however_it_is_written(task_id: Json) -> None:
    arguments = {"task_id": task_id, "subtask": 1.0}
    check_arguments(plan_check.SPEC, arguments)
    assert read(arguments, plan_check.PlanCheck) == plan_check.PlanCheck(task_id=2, subtask=1)


def test_arguments_that_are_not_of_the_struct_are_refused() -> None:
    with pytest.raises(Invalid, match="the arguments do not fit"):
        read({"task_id": 1.5}, plan_start.PlanStart)
