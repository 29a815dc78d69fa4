"""Input that is not text, streams that are closed, and servers that die: one clear sentence, never a traceback."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import SyncClient
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.cli.test_chat import terminal
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

NOT_TEXT = b"caf\xe9"
COMMAND = " ".join(HOLDFAST)


def workspace_in(folder: Path) -> AgentWorkspace:
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("you said {$last_user}"))
    workspace.script(say("you said {$last_user}"), after_last="repeat")
    workspace.agent(calling(call("ask_user", question="Which?")), {"stall": True}, name="asker", tools=["ask_user"])
    return workspace


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    workspace_in(folder)
    with run_server(folder, "--quiet") as up:
        yield up


def run(
    *arguments: str | bytes, input: bytes = b"", environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    done = subprocess.run(
        [*HOLDFAST, *arguments],
        input=input,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def test_input_that_is_not_text_is_a_wrong_command_line(server: Server, tmp_path: Path) -> None:
    url = ("--url", server.url)
    code, out, err = run("ask", "bot", *url, input=NOT_TEXT, environment={"LC_ALL": "C.UTF-8"})
    assert (code, out, err.splitlines()[-1]) == (2, "", "Error: Invalid value for INPUT: stdin is not UTF-8 text")
    argument = "is not text in the encoding of the locale: use UTF-8, such as LANG=C.UTF-8\n"
    code, out, err = run("ask", "bot", NOT_TEXT, *url)
    assert (code, out, err.count("\n"), err.endswith(argument)) == (2, "", 1, True)
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, out, err = run("ask", "bot", "grüße".encode(), *url, environment=ascii_locale)
    assert (code, out, err.count("\n"), err.endswith(argument)) == (2, "", 1, True)
    schema = tmp_path / "schema.json"
    schema.write_bytes(NOT_TEXT)
    code, out, err = run("ask", "bot", "hi", "--schema", str(schema), *url)
    assert (code, out, "schema.json` has no JSON" in err.splitlines()[-1]) == (2, "", True)
    schema.write_text('{"type": 5}')
    code, out, err = run("ask", "bot", "hi", "--schema", str(schema), *url)
    assert (code, out, err.count("\n"), "`output_schema` cannot be used: `type`: " in err) == (1, "", 1, True)


def test_a_conversation_replaces_bytes_that_are_no_text(server: Server, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_bytes(NOT_TEXT + b"\n")
    with lines.open() as file:  # a file cannot be waited for, as a pipe can
        done = subprocess.run(
            [*HOLDFAST, "chat", "bot", "--url", server.url], stdin=file, capture_output=True, timeout=TIMEOUT_SECONDS
        )
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, "agent     you said caf�\n", b"")


def test_closed_streams_are_reported_like_full_ones(server: Server) -> None:
    def shell(line: str) -> tuple[int, str, str]:
        script = line.format(f"{COMMAND} ask bot hi --url {server.url}")
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        return done.returncode, done.stdout, done.stderr

    assert shell("{} >&-") == (4, "", "holdfast: cannot print to stdout: Bad file descriptor\n")
    assert shell("{} >&- 2>&- <&-") == (4, "", "")
    assert shell("{} 2>&- <&-") == (0, "you said hi\n", "")
    assert shell(f"{COMMAND} chat bot --url {server.url} <&-") == (0, "", "")


def test_the_key_of_a_profile_comes_from_a_pipe(tmp_path: Path) -> None:
    config = {"XDG_CONFIG_HOME": str(tmp_path)}
    set_profile = ("profile", "set", "work", "http://127.0.0.1:1", "--key")
    code, out, err = run(*set_profile, input=b"hf_secret\n", environment=config)
    assert (code, out, err.count("\n"), "wrote profile" in err) == (0, "", 1, True)
    assert '"hf_secret"' in (tmp_path / "holdfast" / "profiles.json").read_text()
    code, out, err = run(*set_profile, input=b"two words\n", environment=config)
    assert (code, err.startswith("holdfast: stdin does not contain a valid key")) == (1, True)


def test_a_wrong_choice_is_named_without_words_of_a_library(server: Server) -> None:
    code, _, err = run("run", "list", "--status", "done", "--url", server.url)
    assert (code, "Invalid value for '--status': 'done' is not one of 'pending'" in err) == (2, True)


def test_ask_waits_for_a_server_that_restarts(tmp_path: Path) -> None:
    workspace_in(tmp_path).agent({"say": "you said {$last_user}", "chunks": 20, "delay_ms": 200}, name="slow")
    command = [*HOLDFAST, "ask", "slow", "hi"]
    with (
        run_server(tmp_path, "--quiet") as first,
        subprocess.Popen(
            [*command, "--url", first.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as asking,
    ):
        with SyncClient(first.url) as hf:
            wait_for(lambda: list(hf.runs.list(agent="slow", status="running")))
        first.kill()
        with run_server(tmp_path, "--quiet", "--port", first.port):
            assert asking.communicate(timeout=TIMEOUT_SECONDS) == ("you said hi\n", "")
            assert asking.returncode == 0


def test_ask_that_gives_up_names_the_command_that_goes_on(tmp_path: Path) -> None:
    workspace_in(tmp_path).agent({"stall": True}, name="slow")
    program = "import holdfast.client.wire as w; w.DEFAULT_RETRY_SECONDS = 0.5; import holdfast.cli.main as m; m.main()"
    with (
        run_server(tmp_path, "--quiet") as server,
        subprocess.Popen(
            [HOLDFAST[0], "-c", program, "ask", "slow", "hi", "--url", server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as asking,
    ):
        with SyncClient(server.url) as hf:
            wait_for(lambda: list(hf.runs.list(agent="slow", status="running")))
        server.kill()
        out, err = asking.communicate(timeout=TIMEOUT_SECONDS)
    first, second = err.splitlines()
    assert (asking.returncode, out) == (1, "")
    assert first.startswith("detached, the run continues: holdfast run follow run_")
    assert second.startswith("holdfast: no server at ") and second.endswith("[SERVER_UNREACHABLE]")


@pytest.mark.parametrize("verb", [["logs", "-f"], ["run", "watch"], ["notification", "follow"]], ids=" ".join)
def test_a_command_without_an_end_says_that_the_connection_is_lost(tmp_path: Path, verb: list[str]) -> None:
    workspace_in(tmp_path)
    with (
        run_server(tmp_path, "--quiet") as server,
        subprocess.Popen(
            [*HOLDFAST, *verb, "--url", server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching,
    ):
        wait_for(lambda: re.search(r"^holdfast_stream_clients\{.*\} 1$", metrics(server), re.MULTILINE))
        server.kill()
        assert watching.stderr is not None
        assert f"connection to {server.url} lost" in watching.stderr.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(TIMEOUT_SECONDS) == 0


def test_top_keeps_what_it_showed_while_the_server_is_away(tmp_path: Path) -> None:
    workspace_in(tmp_path)
    with run_server(tmp_path, "--quiet") as server, terminal(server, "--interval", "0.2", command="top") as top:
        top.expect("running 0")
        server.kill()
        top.expect("before the connection broke: no server at")
        with run_server(tmp_path, "--quiet", "--port", server.port):
            top.expect("waiting 0")
            top.type("\x03")
            assert top.end() == 0


def test_what_is_typed_after_an_answer_from_elsewhere_steers(server: Server) -> None:
    with terminal(server, "asker") as chat, SyncClient(server.url) as hf:
        chat.expect("you › ")
        chat.type("go\n")
        chat.expect("answer › ")
        (waiting,) = hf.runs.list(agent="asker", status="waiting")
        hf.run(waiting.id).respond("this one")
        chat.expect("this one")
        chat.type("faster\n")
        chat.expect("the agent reads it before its next step")
        hf.run(waiting.id).cancel()


@contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def metrics(server: Server) -> str:
    with SyncClient(server.url) as hf:
        return hf.request("GET", "/metrics").decode()
