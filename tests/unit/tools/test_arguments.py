from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolSpec
from holdfast.tools.arguments import MAX_PROBLEMS, check_arguments, parse_arguments
from holdfast.tools.builtin.agents import AgentMessageArguments, AgentSendArguments, AgentSpawnArguments
from holdfast.tools.builtin.catalog import BUILTIN_SPECS
from holdfast.tools.builtin.files import EditFileArguments, ReadFileArguments, WriteFileArguments
from holdfast.tools.builtin.memory import (
    GraphSearchArguments,
    ProvenanceArguments,
    RecallArguments,
    RememberArguments,
    SemanticSearchArguments,
    TimelineArguments,
)
from holdfast.tools.builtin.memory_files import MemoryReadArguments, MemorySearchArguments, MemoryWriteArguments
from holdfast.tools.builtin.notes import (
    CreateArtifactArguments,
    LogWriteArguments,
    TodoReadArguments,
    TodoWriteArguments,
)
from holdfast.tools.builtin.plan import (
    PLAN_CHECK,
    PlanBlockArguments,
    PlanCancelArguments,
    PlanCheckArguments,
    PlanCompleteArguments,
    PlanCreateArguments,
    PlanStartArguments,
    PlanUpdateArguments,
)
from holdfast.tools.builtin.reminders import (
    CompleteReminderArguments,
    DismissReminderArguments,
    ListRemindersArguments,
    SetReminderArguments,
)
from holdfast.tools.builtin.search import GlobArguments, GrepArguments, ListDirArguments
from holdfast.tools.builtin.shell import BashArguments
from holdfast.tools.builtin.skills import (
    SkillActivateArguments,
    SkillCatalogArguments,
    SkillContextArguments,
    SkillDescribeArguments,
    SkillGetArguments,
    SkillListArguments,
)
from holdfast.tools.builtin.tasks import (
    TaskCreateArguments,
    TaskSpawnArguments,
    TaskStatusArguments,
    TaskSubscribeArguments,
)
from holdfast.tools.builtin.tool_search import ToolActivateArguments, ToolSearchArguments
from holdfast.tools.builtin.waiting import AskUserArguments, SleepArguments, TaskRespondArguments
from holdfast.tools.builtin.web import WebFetchArguments, WebSearchArguments
from holdfast.tools.middleware import validate_arguments
from holdfast.tools.schema_check import MAX_PROBLEM_CHARS, MAX_SAMPLE_CHARS
from holdfast.tools.tool import wrap_tool
from holdfast.tools.typed_tool import ToolArguments
from tests.support.calls import Recorder, a_call, a_spec

ARGUMENT_TYPES: Final[dict[str, type[ToolArguments]]] = {
    "agent_message": AgentMessageArguments,
    "agent_send": AgentSendArguments,
    "agent_spawn": AgentSpawnArguments,
    "ask_user": AskUserArguments,
    "bash": BashArguments,
    "complete_reminder": CompleteReminderArguments,
    "create_artifact": CreateArtifactArguments,
    "dismiss_reminder": DismissReminderArguments,
    "list_reminders": ListRemindersArguments,
    "set_reminder": SetReminderArguments,
    "skill_activate": SkillActivateArguments,
    "skill_catalog": SkillCatalogArguments,
    "skill_context": SkillContextArguments,
    "skill_describe": SkillDescribeArguments,
    "skill_get": SkillGetArguments,
    "skill_list": SkillListArguments,
    "edit_file": EditFileArguments,
    "graph_search_memory": GraphSearchArguments,
    "memory_read": MemoryReadArguments,
    "memory_search": MemorySearchArguments,
    "memory_write": MemoryWriteArguments,
    "provenance_lookup": ProvenanceArguments,
    "recall": RecallArguments,
    "remember": RememberArguments,
    "semantic_search_memory": SemanticSearchArguments,
    "timeline_search": TimelineArguments,
    "glob": GlobArguments,
    "grep": GrepArguments,
    "list_dir": ListDirArguments,
    "log_write": LogWriteArguments,
    "plan_block": PlanBlockArguments,
    "plan_cancel": PlanCancelArguments,
    "plan_check": PlanCheckArguments,
    "plan_complete": PlanCompleteArguments,
    "plan_create": PlanCreateArguments,
    "plan_start": PlanStartArguments,
    "plan_update": PlanUpdateArguments,
    "read_file": ReadFileArguments,
    "sleep": SleepArguments,
    "task_create": TaskCreateArguments,
    "task_respond": TaskRespondArguments,
    "task_spawn": TaskSpawnArguments,
    "task_status": TaskStatusArguments,
    "task_subscribe": TaskSubscribeArguments,
    "todo_read": TodoReadArguments,
    "todo_write": TodoWriteArguments,
    "tool_activate": ToolActivateArguments,
    "tool_search": ToolSearchArguments,
    "web_fetch": WebFetchArguments,
    "web_search": WebSearchArguments,
    "write_file": WriteFileArguments,
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
    """Draw a built-in tool and arguments that resemble valid ones."""
    spec = draw(st.sampled_from(BUILTIN_SPECS))
    names = sorted(spec.parameters["properties"])
    given: dict[str, Json] = {name: draw(JSON) for name in spec.parameters.get("required", ())}
    given |= draw(
        st.dictionaries(st.sampled_from(names) | st.text(max_size=3) if names else st.text(), JSON, max_size=3)
    )
    for name in draw(st.sets(st.sampled_from(sorted(given)) if given else st.nothing())):
        given[name] = draw(_matching(spec.parameters["properties"].get(name, {})))
    return spec, given


def _matching(schema: dict[str, Json]) -> st.SearchStrategy[Json]:
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
async def test_a_tool_receives_only_arguments_that_match_its_schema(asked: tuple[ToolSpec, dict[str, Json]]) -> None:
    spec, arguments = asked
    tool = Recorder(spec=spec)
    outcome = await wrap_tool(tool, validate_arguments).run(a_call(), arguments)
    if outcome.failed:
        assert tool.arguments == []
        assert outcome.content.startswith(f"INVALID: the arguments of `{spec.name}` ")
        assert len(outcome.content) < (MAX_PROBLEMS + 1) * (MAX_PROBLEM_CHARS + MAX_SAMPLE_CHARS + 10)
    else:
        assert tool.arguments == [arguments]
        jsonschema_rs.validate(spec.parameters, arguments)
        taken = parse_arguments(arguments, ARGUMENT_TYPES[spec.name])
        assert msgspec.convert(msgspec.to_builtins(taken), ARGUMENT_TYPES[spec.name]) == taken


def test_every_built_in_is_among_those_checked() -> None:
    assert sorted(ARGUMENT_TYPES) == [spec.name for spec in BUILTIN_SPECS]


NESTED: Final = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "maxItems": 20,
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string", "maxLength": 3}, "kind": {"enum": ["a", "b", "d", 4]}},
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
    ("arguments", "message"),
    [
        ({}, "- `arguments`: `items` is missing"),
        ({"items": [], "colour": 1}, "- `arguments`: it does not take `colour`"),
        ({"items": 5}, "- `items`: it must be array; got 5"),
        ({"items": [{"text": "a"}, {"text": "long"}]}, '- `items[1].text`: it is longer than 3 characters; got "long"'),
        ({"items": [{"text": None}]}, "- `items[0].text`: it must be string; got null"),
        ({"items": [{"text": "a", "kind": "c"}]}, '- `items[0].kind`: it must be one of "a", "b", "d", 4; got "c"'),
        ({"items": [{}]}, "- `items[0]`: `text` is missing"),
        (
            {"items": [], "either": ["a", 5]},
            '- `either`: it must be integer, or `either[1]`: it must be string; got ["a",5]',
        ),
        ({"items": [], "one": 1}, "- `one`: it is valid under more than one of the schemas"),
    ],
)
async def test_a_problem_has_its_path_the_expected_type_and_the_value(arguments: dict[str, Json], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        await check_arguments(a_spec("paint", parameters=NESTED), arguments)
    first, problem, *_, last = caught.value.message.splitlines()
    assert (first, last) == ("the arguments of `paint` do not match:", "correct them and call it again")
    assert problem.startswith(message)


async def test_only_the_first_problems_are_listed() -> None:
    with pytest.raises(Invalid) as caught:
        await check_arguments(a_spec(parameters=NESTED), {"items": [{}] * 20})
    assert caught.value.message.count("is missing") == MAX_PROBLEMS
    assert "- and more" in caught.value.message


async def test_the_quoted_value_is_truncated() -> None:
    with pytest.raises(Invalid) as caught:
        await check_arguments(a_spec(parameters=NESTED), {"items": "x" * 100_000, "y" * 100_000: 1})
    assert len(caught.value.message) < 1_000


@pytest.mark.parametrize("arguments", [{"a": "\ud800"}, {"\udfff": 1}, {"a": object()}], ids=["text", "name", "object"])
async def test_arguments_that_are_not_json_are_refused(arguments: dict[str, Json]) -> None:
    with pytest.raises(Invalid, match="the arguments of `look` are not valid JSON"):
        await check_arguments(a_spec(), arguments)


async def test_arguments_that_are_nested_too_deep_are_refused() -> None:
    deep: Json = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(Invalid, match="are not valid JSON"):
        await check_arguments(a_spec(), deep)


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "objekt"},
        {"type": "object", "properties": {"a": {"$ref": "https://localhost/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
)
async def test_an_invalid_or_external_schema_is_refused(parameters: dict[str, Json]) -> None:
    with pytest.raises(Invalid, match="`look` cannot be called: its parameters are not a JSON Schema"):
        await check_arguments(a_spec(parameters=parameters), {})


@pytest.mark.parametrize("task_id", [2, 2.0])
async def test_a_whole_number_is_an_integer_however_it_is_written(task_id: Json) -> None:
    arguments = {"task_id": task_id, "subtask": 1.0}
    await check_arguments(PLAN_CHECK.spec, arguments)
    assert parse_arguments(arguments, PlanCheckArguments) == PlanCheckArguments(task_id=2, subtask=1)


def test_arguments_that_are_not_of_the_struct_are_refused() -> None:
    with pytest.raises(Invalid, match="the arguments do not match"):
        parse_arguments({"task_id": 1.5}, PlanStartArguments)
