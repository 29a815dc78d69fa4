import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.tool import ToolClass, ToolSpec, check_spec
from holdfast.tools.built_ins import SPECS, built_ins
from holdfast.tools.registry import Catalog
from holdfast.tools.spawning import LibrarySpawner
from holdfast.tools.tool import Resumable

WAITING = {"agent_spawn", "ask_user", "sleep", "task_respond"}
READING = {"task_status", "todo_read", "tool_search"}


async def nobody(lease: Lease) -> list[Agent]:
    return []


def test_every_built_in_has_its_place() -> None:
    specs = {tool.spec.name: tool.spec for tool in built_ins(LibrarySpawner(nobody))}
    elsewhere = {"task_status", "tool_activate", "tool_search"}
    assert specs.keys() | elsewhere == {spec.name for spec in SPECS}
    assert specs.keys().isdisjoint(elsewhere)


def test_built_ins_are_transactional_but_for_those_that_only_read() -> None:
    assert {spec.name for spec in SPECS if spec.read_only} == READING
    for spec in SPECS:
        assert check_spec(spec).kind is (ToolClass.IDEMPOTENT if spec.read_only else ToolClass.TRANSACTIONAL)


def test_those_that_wait_can_be_resumed_and_no_others() -> None:
    tools = built_ins(LibrarySpawner(nobody))
    assert {tool.spec.name for tool in tools if isinstance(tool, Resumable)} == WAITING


def test_an_agent_can_have_them_all() -> None:
    box = Catalog(built_ins(LibrarySpawner(nobody))).toolbox(["*", "tool_search", "tool_activate"])
    assert len(box.all()) == len(SPECS) - 1


def test_a_spec_can_be_sent_elsewhere_and_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SPECS), type=tuple[ToolSpec, ...]) == SPECS
