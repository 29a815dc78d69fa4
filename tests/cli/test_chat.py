"""`holdfast chat` from a pipe and on a terminal: messages, questions, steering, branches, and Ctrl-C."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from holdfast import SyncClient
from holdfast.domain.ids import RunId
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

NOTE: Final = call("log_write", message="at nine")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("chat")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("you said {$last_user}"))
    workspace.script(say("you said {$last_user}"), after_last="repeat")
    workspace.agent(
        calling(call("ask_user", question="Which?", options=["red", "green"])),
        say("so {$last_tool}"),
        name="asker",
        tools=["ask_user"],
    )
    workspace.agent(
        calling(NOTE), say("{$last_tool}"), name="clerk", tools=["log_write"], permissions={"ask": ["log_write"]}
    )
    workspace.agent({"stall": True}, name="slow")
    workspace.agent({"error": {"code": "REFUSED", "message": "no way"}}, name="failing")
    with run_server(folder, "--quiet") as up:
        yield up


def piped(server: Server, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*HOLDFAST, "chat", *arguments, "--url", server.url]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def test_each_line_of_a_pipe_is_a_message_of_one_thread(server: Server) -> None:
    done = piped(server, "one\ntwo\n/thread\n", "bot")
    assert done.returncode == 0
    assert done.stdout == "agent     you said one\nagent     you said two\n"
    thread = done.stderr.split("thread: ")[1].strip()
    with SyncClient(server.url) as hf:
        assert [message.content for message in hf.threads.messages(thread)][::2] == ["one", "two"]


def test_a_thread_is_resumed_and_branched(server: Server) -> None:
    with SyncClient(server.url) as hf:
        thread = hf.start("bot", "one").wait().thread_id
        done = piped(server, "two\n/fork\nzwei\n/fork 0\neins\n/fork x\n", "--thread", thread)
        assert done.stdout.splitlines()[:2] == ["user      one", "agent     you said one"]
        assert done.stdout.splitlines()[2:] == [
            "agent     you said two",
            "agent     you said zwei",
            "agent     you said eins",
        ]
        assert "starts a branch after message 1" in done.stderr and "/fork takes the number" in done.stderr
        assert sorted(node.base_sequence or -1 for node in hf.threads.tree(thread)) == [-1, -1, -1, 1]


def test_retry_answers_the_last_message_again(server: Server) -> None:
    done = piped(server, "one\n/retry\ntwo\n/retry\n/thread\n", "bot")
    assert done.stdout.splitlines() == [f"agent     you said {word}" for word in ("one", "one", "two", "two")]
    with SyncClient(server.url) as hf:
        branches = hf.threads.tree(done.stderr.split("thread: ")[1].strip())
        assert sorted(node.base_sequence or -1 for node in branches) == [-1, -1, 1]


def test_questions_are_answered_inline(server: Server) -> None:
    chosen = piped(server, "go\nblue\n2\n", "asker")
    assert "1 red · 2 green" in chosen.stdout and "so green" in chosen.stdout
    assert "choose one of red, green" in chosen.stderr
    edited = piped(server, 'go\ne\ne {"message": "at ten"}\n', "clerk")
    assert "write the changed arguments after `e`" in edited.stderr and "at ten" in edited.stdout
    denied = piped(server, "go\nd not now\n", "clerk")
    assert "not now" in denied.stdout


def test_a_pipe_that_ends_at_a_question_says_how_to_answer(server: Server) -> None:
    done = piped(server, "go\n", "asker")
    assert (done.returncode, "holdfast run show run_" in done.stderr) == (5, True)


def test_a_refused_message_is_sent_again_by_retry(server: Server) -> None:
    done = piped(server, "/model scripted:none.json\none\n/model\n/retry\n", "bot")
    assert (done.returncode, done.stdout) == (0, "agent     you said one\n")
    assert "`none.json` cannot be read" in done.stderr


def test_errors_leave_the_conversation_open(server: Server) -> None:
    done = piped(server, "go\n/retry\n/nothing\n/agent nobody\n/agent bot\n/model\n/help\n", "failing")
    assert done.returncode == 0
    assert done.stderr.count("/retry goes on after the last step") == 2
    assert "`/nothing` is not a command here" in done.stderr and "no agent `nobody`" in done.stderr
    missing = piped(server, "", "nobody")
    assert (missing.returncode, "[NOT_FOUND]" in missing.stderr) == (1, True)
    as_json = piped(server, "", "bot", "--json")
    assert (as_json.returncode, "has no JSON" in as_json.stderr) == (2, True)


class Terminal:
    """`holdfast chat` on a terminal of its own."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def expect(self, pattern: str) -> str:
        """Read until a pattern appears in what was shown since the last call; return what matched."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < deadline, f"`{pattern}` is not in: {self.shown}"
            if select.select([self._descriptor], [], [], 1.0)[0]:
                try:
                    self.shown += os.read(self._descriptor, 65536).decode()
                except OSError:  # the other side is closed
                    pytest.fail(f"`{pattern}` is not in: {self.shown}")
        self.shown = self.shown[found.end() :]
        return found[0]

    def end(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def terminal(server: Server, *arguments: str, command: str = "chat", term: str = "xterm") -> Iterator[Terminal]:
    pid, descriptor = pty.fork()
    if pid == 0:  # pragma: no cover
        os.execve(HOLDFAST[0], [*HOLDFAST, command, *arguments, "--url", server.url], {**os.environ, "TERM": term})
    try:
        yield Terminal(pid, descriptor)
    finally:
        os.close(descriptor)
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def running(hf: SyncClient) -> RunId:
    """Return the run of the agent that never answers."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (runs := list(hf.runs.list(agent="slow", status="running"))):
        assert time.monotonic() < deadline
    return runs[0].id


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_on_a_terminal_an_approval_is_one_key(server: Server, term: str) -> None:
    with terminal(server, "clerk", term=term) as chat:
        chat.expect("you › ")
        chat.type("go\n")
        chat.expect("a approve")
        chat.type("a\n")
        chat.expect("logged")
        chat.expect("you › ")
        chat.type("/quit\n")
        assert chat.end() == 0


def test_arguments_are_changed_in_an_editor_and_a_command_is_no_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "sed -i s/nine/ten/")
    with terminal(server, "clerk") as chat:
        chat.expect("you › ")
        chat.type("go\n")
        chat.expect("answer › ")
        chat.type("/model other\n")
        chat.expect("is for later: the run waits for your answer")
        chat.type("e\n")
        chat.expect('changed the arguments of this call to {"message":"at ten"}')


def test_the_inbox_takes_one_key_for_an_approval(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "true")
    with SyncClient(server.url) as hf:
        for left in hf.interrupts.list():
            hf.run(left.root_run_id).cancel()
        denied, approved = [hf.start("clerk", "go") for _ in range(2)]
        assert [run.wait().status for run in (denied, approved)] == ["waiting", "waiting"]
        with terminal(server, command="approvals") as inbox:
            inbox.expect("1 of 2")
            inbox.expect("q quit")
            inbox.type("e")
            inbox.expect("nothing was changed")
            inbox.expect("q quit")
            inbox.type("d")
            inbox.expect("reason")
            inbox.type("not now\n")
            inbox.expect("2 of 2")
            inbox.expect("q quit")
            inbox.type("a")
            assert inbox.end() == 0
        outputs = sorted(str(run.wait().output) for run in (denied, approved))
        assert '{"logged":true}' in outputs and any("not now" in output for output in outputs), outputs


def test_an_agent_that_works_is_steered_and_left_with_ctrl_c(server: Server) -> None:
    with terminal(server, "slow") as chat:
        chat.expect("you › ")
        chat.type("go\n")
        with SyncClient(server.url) as hf:
            run = running(hf)
            chat.type("faster\n")
            chat.expect("the agent reads it before its next step")
            chat.type("\x03")
            chat.expect("detaching, the run continues")
            chat.expect(f"holdfast chat slow --thread {hf.run(run).get().thread_id}")
            chat.expect(f"holdfast run follow {run}")
            assert chat.end() == 130
            assert not hf.run(run).get().status.terminal
            hf.run(run).cancel()


def test_the_words_of_leaving_a_question_have_lines_of_their_own(server: Server) -> None:
    with terminal(server, "clerk") as chat, SyncClient(server.url) as hf:
        chat.expect("you › ")
        chat.type("go\n")
        chat.expect("answer › ")
        chat.type("\x03")
        assert "answer › resume" not in chat.expect("(?s).*holdfast run follow")
        assert chat.end() == 130
        for run in hf.runs.list(agent="clerk", status="waiting"):
            hf.run(run.id).cancel()


def test_output_waits_while_a_line_is_typed_and_what_comes_too_late_is_the_next_message(server: Server) -> None:
    with terminal(server, "slow") as chat, SyncClient(server.url) as hf:
        chat.expect("you › ")
        chat.type("go\n")
        first = running(hf)
        chat.type("and")
        chat.expect("steer › and")
        hf.run(first).cancel()
        chat.type(" then")
        assert "cancelled" not in chat.expect("(?s).*and then")
        chat.type("\r")
        assert "cancelled; /retry" in chat.expect("(?s).*you › and then")
        second = running(hf)
        assert hf.run(second).get().input == "and then"
        chat.type("\x03")
        assert chat.end() == 130
        hf.run(second).cancel()


def test_a_second_ctrl_c_offers_to_cancel(server: Server) -> None:
    with terminal(server, "slow") as chat:
        chat.expect("you › ")
        chat.type("go\n")
        with SyncClient(server.url) as hf:
            run = running(hf)
            chat.type("\x03")
            chat.expect("Ctrl-C again")
            chat.type("\x03")
            chat.expect(r"cancel the run\? \[y/N\]")
            chat.type("y\n")
            chat.expect("cancelled; /retry")
            chat.expect("you › ")
            assert hf.run(run).get().status == "cancelled"
            chat.type("\x03")
            assert chat.end() == 0
