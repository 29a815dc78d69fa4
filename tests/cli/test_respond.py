"""`holdfast run respond` answers questions, with the commands that `holdfast run follow` prints."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from holdfast.cli.questions import question_lines
from holdfast.domain.content import Json
from holdfast.domain.events.messages import AgUiInterrupt
from holdfast.domain.ids import InterruptId
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.cli.batch import run_all
from tests.cli.test_follow import follower
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.mcp.declaring import PLAIN

ARROW: Final = "→ holdfast "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("respond")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    done = say("result: {$last_tool}")
    workspace.agent(calling(call("ask_user", question="which?")), done, name="asker", tools=["ask_user"])
    workspace.agent(
        calling(call("log_write", message="noted")),
        done,
        name="writer",
        tools=["log_write"],
        permissions={"ask": ["log_write"]},
    )
    workspace.agent(
        calling(call("mcp__plain__ask", text="who")),
        done,
        name="desk",
        mcp_servers={"plain": {"command": sys.executable, "args": ["-I", str(PLAIN)], "sandbox": "off"}},
        permissions={"allow": ["mcp__plain__*"]},
        tainted="allow",
    )
    with run_server(folder, "--quiet") as up:
        yield up


def answer(server: Server, agent: str, choice: str, placeholder: str = "-", value: str = "-") -> str:
    """Answer a run with the command that its follower prints, and return what it says at its end."""
    run = server.start(agent)
    with follower(server, run) as following:
        shown = following.until("waiting for a response")
        (command,) = [line for line in shown.splitlines() if choice in line and ARROW in line]
        words = shlex.split(command.partition(ARROW)[2].replace(placeholder, value))
        subprocess.run([*HOLDFAST, *words], check=True, timeout=TIMEOUT_SECONDS, capture_output=True)
        code, out, err = following.end()
    assert code == 0, err
    return out.partition("result: ")[2].partition("\n")[0]


def test_the_printed_command_answers_a_question(server: Server) -> None:
    assert answer(server, "asker", "respond", "YOUR ANSWER", "that one = best") == "that one = best"


def test_the_printed_commands_decide_about_a_tool_call(server: Server) -> None:
    assert "noted" not in answer(server, "writer", "--deny", "YOUR REASON", "not today")
    assert "not today" in answer(server, "writer", "--deny", "YOUR REASON", "not today")
    assert "refused" not in answer(server, "writer", "--approve")


def test_the_printed_commands_answer_an_elicitation(server: Server) -> None:
    accepted = answer(server, "desk", "--accept", "TEXT", "Ada")
    assert json.loads(accepted) == {"action": "accept", "content": {"name": "Ada"}}
    assert json.loads(answer(server, "desk", "--decline")) == {"action": "decline"}


def test_the_choices_of_every_kind_of_field_are_shown() -> None:
    titled = [{"const": "a", "title": "Apple"}, {"const": "b"}]
    fields: dict[str, Json] = {
        "plain": {"type": "string", "enum": ["x", "y"]},
        "titled": {"type": "string", "oneOf": titled},
        "several": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        "several-titled": {"type": "array", "items": {"anyOf": titled}},
    }
    content: dict[str, Json] = {"properties": fields, "required": list(fields)}
    schema: dict[str, Json] = {"properties": {"action": {}, "content": content}}
    asked = AgUiInterrupt(id=InterruptId("int_1"), reason="input_required", response_schema=schema)
    _, *lines = question_lines(asked, command="holdfast run respond run_1")
    assert lines[:4] == [
        "plain: x or y",
        "titled: a (Apple) or b",
        "several: array of x, y",
        "several-titled: array of a (Apple), b",
    ]


def waiting_run(server: Server, agent: str) -> str:
    """Start a run, and return its id once it waits."""
    run = server.start(agent)
    with follower(server, run) as following:
        following.until("waiting for a response")
    return run


def test_the_answered_interrupt_is_printed_as_json_and_a_second_answer_refused(server: Server) -> None:
    run = waiting_run(server, "asker")
    respond = ["run", "respond", run, "--url", server.url]
    first, second = run_all([[*respond, "--data", '"this"', "--json"], [*respond, "that"]])
    answered: dict[str, Json] = json.loads(first.out)
    assert (answered["response"], answered["status"], first.code) == ("this", "answered", 0)
    assert (second.code, second.out) == (1, "")
    assert "[" in second.err


def test_a_response_that_does_not_fit_is_refused_and_changes_nothing(server: Server) -> None:
    run = waiting_run(server, "writer")
    respond = ["run", "respond", run, "--url", server.url]
    wrong, unknown, right = run_all(
        [[*respond, "yes"], [*respond, "--approve", "--interrupt", "int_none"], [*respond, "--approve"]]
    )
    assert (wrong.code, "[INVALID]" in wrong.err) == (1, True)
    assert f"`holdfast run show {run} --url {server.url}` shows the command that answers" in wrong.err
    assert (unknown.code, "[NOT_FOUND]" in unknown.err) == (1, True)
    assert (right.code, right.err) == (0, "answered: The agent wants to call `log_write`. May it?\n")


def test_an_ambiguous_or_malformed_response_is_a_wrong_command_line() -> None:
    respond = ["run", "respond", "run_1"]
    wrong = [
        respond,
        [*respond, "yes", "--approve"],
        [*respond, "--approve", "--deny"],
        [*respond, "--approve", "--reason", "why"],
        [*respond, "yes", "--field", "name=Ada"],
        [*respond, "--accept", "--field", "name"],
        [*respond, "--accept", "--field", "age:=many"],
        [*respond, "--data", "{"],
        ["run", "respond", "", "yes"],
    ]
    assert [done.code for done in run_all(wrong)] == [2] * len(wrong)


def test_a_server_that_cannot_be_reached_is_named_in_our_own_words() -> None:
    (refused,) = run_all([["run", "respond", "run_1", "yes", "--url", "http://127.0.0.1:1"]])
    remedy = "start one with `holdfast serve`, or pass its URL with `--url`"
    assert (
        refused.err
        == f"holdfast: no server at http://127.0.0.1:1 (nothing listens there): {remedy} [SERVER_UNREACHABLE]\n"
    )
