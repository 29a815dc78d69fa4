"""The play of the crash test: a captain that plans, reads, pays, delegates, asks, is steered and sleeps, and its mates.

Every model call and every call of a test tool has named kill points:

    begun    nothing has happened yet
    inside   the model has streamed text; the tool server has counted the call
    over     the call is complete, and its result is not committed
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from holdfast.domain.ids import RunId

Stage: TypeAlias = Literal["begun", "inside", "over"]
STAGES: Final[Sequence[Stage]] = get_args(Stage)

CAPTAIN: Final = "captain"
GOAL: Final = "Sail to Kobe."
QUESTION: Final = "May we cast off?"
ANSWER: Final = "aye"
WATCHED: Final = "horizon"
"""The subject that the captain watches while a person steers."""
FIRST_ORDER: Final = "Mind the reef."
SECOND_ORDER: Final = "Wake up."
LONG_SLEEP_SECONDS: Final = 36_000
"""Seconds of a sleep that only a person ends."""
MATES: Final = ("Load the cargo.", "Mend the sails.", "Scrub the deck.")

_TOOLS: Final = ["look", "charge", "sync", "note", "watch", "ask_user", "sleep", "create_artifact"]
_CAPTAINS_TOOLS: Final = ["agent_spawn", "todo_write", "plan_*"]


def _turn(say: str, *calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a turn in three chunks, with time between them to be killed."""
    tool_calls = [{"name": name, "arguments": arguments} for name, arguments in calls]
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {"say": say, "chunks": 3, "delay_ms": 3, "call": tool_calls, "usage": usage, **more}


def _items(*, done: bool) -> dict[str, Any]:
    return {"items": [{"text": "load", "done": done}, {"text": "cast off", "done": done}]}


def _spawn(task: str) -> tuple[str, dict[str, Any]]:
    return "agent_spawn", {"agent": "mate", "input": task}


CAPTAINS_TURNS: Final = [
    _turn(
        "First a plan.",
        ("plan_create", {"title": "Sail", "subtasks": ["load", "cast off"]}),
        ("todo_write", _items(done=False)),
        think="A long way.",
    ),
    _turn("Let us begin.", ("plan_start", {"task_id": 1})),
    _turn("How is it outside?", *(("look", {"what": what}) for what in ("wind", "tide", "sky"))),
    _turn("We need fuel.", ("charge", {"what": "fuel"})),
    _turn(
        "Papers and water.",
        ("sync", {"what": "manifest"}),
        ("charge", {"what": "water"}),
        ("note", {"what": "logbook"}),
    ),
    _turn("Load!", _spawn(MATES[0])),
    _turn("All hands!", _spawn(MATES[1]), _spawn(MATES[2])),
    _turn("I ask the owner.", ("ask_user", {"question": QUESTION})),
    _turn("I keep watch.", ("watch", {"what": WATCHED})),
    _turn("A nap.", ("sleep", {"seconds": 0.02})),
    _turn("A long sleep.", ("sleep", {"seconds": LONG_SLEEP_SECONDS})),
    _turn(
        "Land.",
        ("create_artifact", {"type": "report", "title": "Log of the voyage", "content": "All well."}),
        ("plan_check", {"task_id": 1, "subtask": "load"}),
        ("plan_check", {"task_id": 1, "subtask": "cast off"}),
    ),
    _turn(
        "We pay and are done.",
        ("plan_complete", {"task_id": 1, "conclusion": "We are in Kobe."}),
        ("todo_write", _items(done=True)),
        ("charge", {"what": "harbour"}),
        ("plan_create", {"title": "Sail home"}),
    ),
    _turn("In Kobe. I heard: {$last_user}"),
]
MATES_TURNS: Final = [
    _turn("Aye.", ("look", {"what": "tools for {$last_user}"}), ("charge", {"what": "wages for {$last_user}"})),
    _turn("Half of it.", ("todo_write", _items(done=True)), ("sync", {"what": "hours for {$last_user}"})),
    _turn("Done: {$last_user}"),
]


def write_workspace(folder: Path, *, unknown_outcome: str = "tell") -> Path:
    """Write the workspace of the play."""
    _write_agent(folder, CAPTAIN, CAPTAINS_TURNS, tools=[*_TOOLS, *_CAPTAINS_TOOLS], unknown_outcome=unknown_outcome)
    _write_agent(folder, "mate", MATES_TURNS, tools=["look", "charge", "sync", "todo_write"])
    return folder


FLEETS_TURNS: Final = [
    _turn(
        "To the boats!",
        *(("agent_spawn", {"agent": "mate", "input": side}) for side in ("port", "starboard")),
        ("agent_message", {"agent": "clerk", "message": "we leave"}),
    ),
    _turn("Write it down.", ("agent_message", {"agent": "clerk", "message": "we are back"})),
    _turn("We pay.", ("charge", {"what": "harbour"}), ("ask_user", {"question": "Shall we dine?"})),
    _turn("All are back: {$last_tool}"),
]
_FLEET: Final = {
    "mate": [
        _turn("Aye.", ("look", {"what": "boat at {$last_user}"}), ("charge", {"what": "oars at {$last_user}"})),
        _turn(
            "Who rows?",
            ("agent_spawn", {"agent": "boy", "input": "row at {$last_user}"}),
            ("ask_user", {"question": "May we go from {$last_user}?"}),
        ),
        _turn("Back at {$last_user}."),
    ],
    "boy": [
        _turn("Where to?", ("ask_user", {"question": "Where to {$last_user}?"}), ("sleep", {"seconds": 0.02})),
        _turn("I row.", ("sync", {"what": "strokes to {$last_user}"}), ("note", {"what": "log to {$last_user}"})),
        _turn("I did {$last_user}."),
    ],
    "clerk": [_turn("I write.", ("note", {"what": "{$last_user}"})), _turn("Written: {$last_user}")],
}


def write_fleet(folder: Path) -> Path:
    """Write the workspace of a play with three levels of agents: each waits for its children, and all ask."""
    tools = [*_TOOLS, "agent_spawn", "agent_message"]
    for name, turns in {CAPTAIN: FLEETS_TURNS, **_FLEET}.items():
        _write_agent(folder, name, turns, tools=tools)
    return folder


def write_agent_with(
    folder: Path, turns: Sequence[dict[str, Any]], *, tools: Sequence[str] = _TOOLS, **settings: Any
) -> Path:
    """Write a workspace whose captain has other turns."""
    _write_agent(folder, CAPTAIN, turns, tools=tools, **settings)
    return folder


def calling(*calls: tuple[str, str], say: str = "I will.") -> dict[str, Any]:
    """Return a turn that calls tools, each with its subject."""
    return _turn(say, *((name, {"what": what}) for name, what in calls))


def name_of(root: RunId, what: str) -> str:
    """Return the name under which the tool server counts a call."""
    return f"{root}/{what}"


def moment(kind: Literal["model", "tool"], what: str, stage: Stage) -> str:
    """Return the name of a moment."""
    return f"{kind} {what}: {stage}"


def _write_agent(
    folder: Path, name: str, turns: Sequence[dict[str, Any]], *, tools: Sequence[str], **settings: Any
) -> None:
    home = folder / "agents" / name
    home.mkdir(parents=True)
    (home / "AGENT.md").write_text(f"You are the {name}.")
    settings = {"model": "scripted:script.json", "tools": list(tools), **settings}
    (home / "agent.json").write_text(json.dumps(settings))
    (home / "script.json").write_text(json.dumps({"turns": list(turns), "after_last": "fail"}))
