"""`holdfast run follow`: every event once, over any number of servers, and an exit code that mirrors the run."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

# A shell that runs the tests in the background lets them, and all their children, ignore Ctrl-C.
INTERRUPTIBLE: Final = """
import signal
from holdfast.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("follow")
    write_agents(folder)
    with run_server(folder, "--quiet") as up:
        yield up


def write_agents(folder: Path) -> AgentWorkspace:
    """Write the agents that tests follow."""
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("hello you\u2028two\nlines", chunks=4))
    workspace.agent(calling(call("ask_user", question="which?")), say("so be it"), name="asker", tools=["ask_user"])
    workspace.agent(say("one moment", stall=True), name="staller")
    workspace.agent({"error": {"code": "MODEL_REFUSED", "message": "no way"}}, name="failing")
    return workspace


class Follower:
    """`holdfast run follow --url … RUN` as a child process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None and process.stderr is not None
        self.process = process
        self._out, self._err = process.stdout, process.stderr

    def until(self, found: str) -> str:
        """Return its output up to the first line that contains `found`."""
        lines = ""
        for line in self._out:
            lines += line
            if found in line:
                return lines
        raise AssertionError(lines + self._err.read())

    def end(self) -> tuple[int, str, str]:
        """Return its exit code and the rest of its output."""
        out, err = self._out.read(), self._err.read()
        return self.process.wait(), out, err


@contextmanager
def follower(server: Server, run: str, *options: str) -> Iterator[Follower]:
    """Follow a run in the background."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "run", "follow", run, "--url", server.url, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
    )
    alarm = threading.Timer(TIMEOUT_SECONDS, process.kill)
    alarm.start()
    try:
        yield Follower(process)
    finally:
        alarm.cancel()
        process.kill()
        process.communicate()


def test_json_is_one_event_per_line_as_in_the_log_over_both_transports(server: Server) -> None:
    run = server.start("bot")
    options = (["--transport", "sse"], ["--transport", "ws"], ["--after", "3"])
    sse, ws, rest = run_all([["run", "follow", run, "--url", server.url, "--json", *each] for each in options])
    assert [json.loads(line) for line in sse.out.split("\n")[:-1]] == server.log(run)
    assert ws == sse
    assert rest.out == "\n".join(sse.out.split("\n")[3:])
    assert (rest.code, rest.err) == (0, f"run {run} completed\n")


def test_a_url_may_have_capitals_and_a_trailing_slash(server: Server) -> None:
    run, loud = server.start("bot"), server.url.replace("http", "HTTP") + "/"
    ended = run_all([["run", "follow", run, "--url", loud, "--transport", each, "--json"] for each in ("sse", "ws")])
    assert [(done.code, done.err) for done in ended] == [(0, f"run {run} completed\n")] * 2


def test_a_failed_run_fails_the_command_even_without_events_to_show(server: Server) -> None:
    run = server.start("failing")
    follow = ["run", "follow", run, "--url", server.url]
    (followed,) = run_all([[*follow, "--json"]])
    (resumed,) = run_all([[*follow, "--after", str(followed.out.count("\n"))]])
    assert (followed.code, resumed.code) == (1, 1)
    assert resumed.err == f"run {run} failed: no way [MODEL_REFUSED]\n"


def test_people_get_labelled_lines(server: Server) -> None:
    run = server.start("bot", "good morning")
    with follower(server, run, "--transport", "ws") as following:
        code, out, err = following.end()
    assert (code, err) == (0, f"run {run} completed\n")
    assert out.startswith(f"run       {run}, agent bot")
    assert "user      good morning\nagent     hello you\u2028two\n          lines\n" in out
    assert out.endswith("status    finished, 0 tokens\n")
    assert "\x1b" not in out


def test_characters_that_the_output_encoding_lacks_are_escaped(server: Server) -> None:
    run = server.start("bot")
    command = [*HOLDFAST, "run", "follow", run, "--url", server.url]
    environment = os.environ | {"NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment)
    assert (done.returncode, done.stderr) == (0, f"run {run} completed\n")
    assert "agent     hello you\\u2028two\n          lines\n" in done.stdout


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["people", "programs"])
def test_a_full_disk_has_its_own_exit_code(server: Server, options: list[str]) -> None:
    command = [*HOLDFAST, "run", "follow", server.start("bot"), "--url", server.url, *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS)
    assert (done.returncode, done.stderr) == (4, "holdfast: cannot print to stdout: No space left on device\n")


def test_a_question_is_shown_and_the_run_followed_across_server_restarts(tmp_path: Path) -> None:
    write_agents(tmp_path)
    with run_server(tmp_path, "--quiet") as server:
        run = server.start("asker")
        with follower(server, run) as following:
            following.until("question  which?")
            assert server.stop()[0] == 0
            with run_server(tmp_path, "--quiet", "--port", server.port) as another:
                another.request(f"/api/runs/{run}/respond", {"response": "that one"})
                code, out, err = following.end()
    assert (code, "agent     so be it\n" in out) == (0, True)
    reason = r"(it closed the (stream|connection)|nothing listens there)"
    assert re.search(rf"lost \({reason}\): the run is safe, reconnecting\n", err)
    assert "reconnected" in err


def test_ctrl_c_detaches_and_a_cancelled_run_has_its_own_exit_code(server: Server) -> None:
    run = server.start("staller")
    with follower(server, run, "--transport", "ws", "--json") as following:
        following.until("RUN_STARTED")
        following.process.send_signal(signal.SIGINT)
        code, _, err = following.end()
    assert code == 130
    resume_command = f"holdfast run follow {run} --transport ws --url {server.url} --json --after "
    assert f"detached, the run continues: {resume_command}" in err
    assert server.request(f"/api/runs/{run}")["status"] in ("queued", "running")
    with follower(server, run, "--json") as following:
        following.until("TEXT_MESSAGE_CONTENT")
        server.request(f"/api/runs/{run}/cancel", {})
        code, _, err = following.end()
    assert code == 3
    assert f"run {run} cancelled" in err


def test_followers_survive_a_killed_server_and_see_every_event_once(tmp_path: Path) -> None:
    workspace = write_agents(tmp_path)
    with run_server(tmp_path, "--quiet") as server:
        run = server.start("staller")
        with follower(server, run, "--json") as sse, follower(server, run, "--json", "--transport", "ws") as ws:
            first_parts = [following.until("TEXT_MESSAGE_CONTENT") for following in (sse, ws)]
            server.kill()
            workspace.script(say("here I am again", chunks=15), agent="staller")
            with run_server(tmp_path, "--quiet", "--port", server.port) as another:
                ended = [following.end() for following in (sse, ws)]
                log = another.log(run)
    for before, (code, after, err) in zip(first_parts, ended, strict=True):
        assert [json.loads(line) for line in (before + after).split("\n")[:-1]] == log
        assert [code, "connection to" in err, "reconnected" in err] == [0, True, True]
    assert "holdfast.abandoned" in [event.get("name") for event in log]


def test_a_run_that_cannot_be_followed_is_one_line_and_a_usage_error_has_its_own_code(server: Server) -> None:
    run = server.start("bot")
    here = ["--url", server.url]
    cases = [
        (["nothing", *here], 1, "there is no run `nothing` [NOT_FOUND]"),
        ([run, *here, "--after", "9999"], 1, "there is no event 9999 yet"),
        ([run, *here, "--after", "9999", "--transport", "ws"], 1, "[BAD_CURSOR]"),
        ([run, "--url", "http://127.0.0.1:1"], 1, "no server at http://127.0.0.1:1"),
        ([run, "--url", f"{server.url}/elsewhere"], 1, "there is no route for"),
        ([run, "--url", "nowhere"], 1, "`nowhere` is not a valid server URL"),
        ([run, "--url", "http://[::1"], 1, "is not a valid server URL"),
        ([run, "--url", "http://h:port"], 1, "is not a valid server URL"),
        ([run, "--url", "http://127.0.0.1:99999"], 1, "is not a valid server URL"),
        ([run, "--url", "http://127.0.0.1:0"], 1, "is not a valid server URL"),
        ([run, "--url", f"{server.url}?x=1"], 1, "it has a `?` or a `#`"),
        ([run, "--url", f"{server.url}#f", "--transport", "ws"], 1, "it has a `?` or a `#`"),
        (["", *here], 2, "it is empty: pass an id"),
        ([], 2, "RUN_ID"),
        ([run, "another"], 2, "another"),
        ([run, "--after", "-1"], 2, "--after"),
        ([run, "--transport", "pigeon"], 2, "pigeon"),
    ]
    ended = run_all([["run", "follow", *arguments, "--json"] for arguments, _, _ in cases])
    for (arguments, code, message), done in zip(cases, ended, strict=True):
        assert (arguments, done.code, done.out) == (arguments, code, "")
        assert message in done.err
        assert code == 2 or done.err.count("\n") == 1
