"""The programs of the guide and the example page work."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests.api.ag_ui.driver import INSTALLED, install
from tests.api.server_process import TIMEOUT_SECONDS, Server, run_server
from tests.architecture.project import ROOT

GUIDE: Final = (ROOT / "docs" / "guides" / "ag-ui.md").read_text()
PAGE: Final = ROOT / "examples" / "ag_ui_page"
ADDRESS: Final = "http://127.0.0.1:5050"
SITE: Final = "http://localhost:3000"
HELLO: Final = "Hello! You said: good morning."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("guide"), "--quiet", "--cors-origin", SITE) as running:
        yield running


def run_command(command: list[str], *, cwd: Path | None = None) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True, cwd=cwd).stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_first_request_is_answered_with_a_segment(server: Server) -> None:
    (command,) = re.findall(r"^curl .+$", GUIDE, re.MULTILINE)
    answer = run_command(["sh", "-c", command.replace(ADDRESS, server.url)])
    events = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: ")]
    assert (events[0]["type"], events[-1]["type"]) == ("RUN_STARTED", "RUN_FINISHED")
    assert "".join(each["delta"] for each in events if each["type"] == "TEXT_MESSAGE_CONTENT").startswith(HELLO)


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm here")
def test_the_program_prints_the_reply(server: Server) -> None:
    install()
    (program,) = re.findall(r"^```js\n(.+?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    code = program.replace(ADDRESS, server.url)
    assert run_command(["node", "--input-type=module", "--eval", code], cwd=INSTALLED).startswith(HELLO)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
def test_the_example_page_chats_and_keeps_the_conversation(server: Server) -> None:
    program = f"""
        import {{ Agent }} from {json.dumps((PAGE / "ag_ui.js").as_uri())};
        const agent = new Agent("{server.url}/api/agents/hello/run");
        await agent.say("good morning");
        await agent.say("good night");
        console.log(JSON.stringify(agent.messages.map(({{ role, content }}) => [role, content])));
    """
    said = json.loads(run_command(["node", "--no-warnings", "--input-type=module", "--eval", program]))
    assert [role for role, _ in said] == ["user", "assistant"] * 2
    assert said[1][1].startswith(HELLO) and "good night" in said[3][1]


def test_only_the_allowed_origin_may_use_the_server(server: Server) -> None:
    wants = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    address = f"{server.url}/api/agents/hello/run"
    with httpx2.Client(trust_env=False) as client:
        allowed = client.options(address, headers={"Origin": SITE, **wants})
        assert allowed.headers["access-control-allow-origin"] == SITE
        body = {"threadId": "page", "runId": "page-1", "messages": [{"id": "p", "role": "user", "content": "hi"}]}
        answer = client.post(address, json=body, headers={"Origin": SITE})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, SITE)
        stranger = client.post(address, json={**body, "runId": "page-2"}, headers={"Origin": "http://evil.example"})
        assert stranger.status_code == 403
