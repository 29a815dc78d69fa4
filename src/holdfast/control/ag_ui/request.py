"""What a request asks for, as the domain knows it."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType

from holdfast.control.ag_ui.matching import Place
from holdfast.control.ag_ui.messages import Spoken, context_message, new_message
from holdfast.control.task_contract.ids import run_id_of
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import RunAgentInput
from holdfast.domain.ids import RunId, ThreadId, check_client_id
from holdfast.domain.message import NewMessage
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.thread import NewThread
from holdfast.tools.client_tools import CLIENT_TOOLS_VALUE as CLIENT_TOOLS
from holdfast.tools.client_tools import client_tool_spec, client_tools_value


def check_names(asked: RunAgentInput) -> None:
    """Raise unless a client may choose the ids that it does."""
    check_client_id(asked.thread_id, field="threadId")
    check_client_id(asked.run_id, field="runId")
    if run_id_of(asked.run_id) != asked.run_id:
        raise Invalid(f"`{asked.run_id}` would be the name of a task: choose another id", field="runId")


def new_run(
    asked: RunAgentInput,
    place: Place,
    thread: ThreadId | NewThread,
    *,
    agent: str | None,
    base: RunBase | None | UnsetType,
) -> NewRun:
    """Return the run that a client asks for at a place."""
    forks = place.sequence is not None or bool(place.known)
    return NewRun(
        thread=thread,
        messages=_input(asked, place),
        id=asked.run_id,
        agent_type=agent,
        base=base,
        values=_values(asked, forks=forks),
    )


def _input(asked: RunAgentInput, place: Place) -> list[NewMessage]:
    context = [] if asked.context is UNSET or not asked.context else [context_message(asked.context)]
    said = [each for each in place.said if isinstance(each, Spoken)]
    return [*context, *(new_message(each, revises=each.id if each.id in place.known else None) for each in said)]


def _values(asked: RunAgentInput, *, forks: bool) -> dict[str, Json]:
    """Return what a client gives to a run beside messages. A fork has the state that there was where it begins."""
    values: dict[str, Json] = {}
    if state_of(asked) and not forks:
        values["state"] = asked.state
    if asked.tools is not UNSET and asked.tools:
        specs = [
            client_tool_spec(tool.name, tool.description, None if tool.parameters is UNSET else tool.parameters)
            for tool in asked.tools
        ]
        values[CLIENT_TOOLS] = client_tools_value(asked.run_id, specs)
    return values


def state_of(asked: RunAgentInput) -> Json:
    """Return the state that a client has; nothing is the same as an empty one."""
    return {} if asked.state is UNSET else asked.state or {}


def news_of_state(asked: RunAgentInput, values: Mapping[str, Json]) -> Json | UnsetType:
    """Return the state among the values of a run, unless it is the one that the client has."""
    state = values.get("state") or {}
    return UNSET if state == state_of(asked) else state


def begins(asked: RunAgentInput) -> bool:
    """Say whether a client may begin a thread so: it goes on with no run, and answers none."""
    return named_base(asked) is None and (asked.resume is UNSET or not asked.resume)


def named_base(asked: RunAgentInput) -> RunId | None:
    """Return the run that a client wants to continue, if it says so."""
    if asked.parent_run_id is not UNSET:
        return asked.parent_run_id
    props = asked.forwarded_props
    named = props.get("baseRunId") if isinstance(props, dict) else None
    if named is not None and not isinstance(named, str):
        raise Invalid("`forwardedProps.baseRunId` must be the id of a run", field="forwardedProps.baseRunId")
    return named if named is None else RunId(named)


def last_results(messages: Sequence[wire.AgUiMessage]) -> list[wire.ToolMessage]:
    """Return the results of tools that a client sends after the last assistant message."""
    results: list[wire.ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, wire.AssistantMessage):
            break
        if isinstance(message, wire.ToolMessage):
            results.append(message)
    return results
