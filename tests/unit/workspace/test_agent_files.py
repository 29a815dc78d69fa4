import os
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.agent import DaemonSettings, ModeSettings, Permissions, UnknownOutcome
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer
from holdfast.workspace.agents import FolderAgents, read_agent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.text_files import MAX_FILE_BYTES
from tests.unit.workspace.workspace_files import write_agent, write_json

EVERY_KEY: dict[str, Any] = {
    "$schema": "agent.schema.json",
    "model": ["openai:gpt-5", "local:llama3:8b"],
    "description": "Keeps the books.",
    "chat": {"enabled": False},
    "task": {"enabled": True},
    "daemon": {"enabled": False},
    "tools": ["sleep", "plan_create", "sleep"],
    "permissions": {"deny": ["bash(rm *)"], "ask": ["bash"], "allow": ["read_file"]},
    "limits": {"max_iterations": 20, "max_duration_seconds": 600, "token_budget": 10**6, "cost_budget_usd": 0.5},
    "unknown_outcome": "ask",
    "temperature": 1,
    "thinking": "high",
    "mcp_servers": {"github": {"command": "mcp-github", "args": ["--read-only"]}},
    "working_folder": "projects/site",
}


def test_every_key_is_read(workspace: Workspace) -> None:
    write_agent(workspace, "book_keeper-2", says="# Books\n\nKeep them.\n", **EVERY_KEY)
    agent = read_agent(workspace, "book_keeper-2")
    assert agent.name == "book_keeper-2"
    assert agent.models == ["openai:gpt-5", "local:llama3:8b"]
    assert agent.description == "Keeps the books."
    assert agent.instructions == "# Books\n\nKeep them."
    assert (agent.chat.enabled, agent.task.enabled, agent.daemon.enabled) == (False, True, False)
    assert agent.tools == ["sleep", "plan_create"]
    assert agent.permissions == Permissions(deny=["bash(rm *)"], ask=["bash"], allow=["read_file"])
    assert agent.limits == Limits(max_iterations=20, max_duration_seconds=600, token_budget=10**6, cost_budget_usd=0.5)
    assert agent.unknown_outcome is UnknownOutcome.ASK
    assert (agent.temperature, agent.thinking) == (1.0, "high")
    assert agent.mcp_servers == {"github": McpServer(command="mcp-github", args=["--read-only"])}
    assert agent.working_folder == "projects/site"
    assert agent.folder == str(workspace.agents / "book_keeper-2")


def test_only_the_model_is_required(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    write_json(folder / "agent.json", {"model": "openai:gpt-5"})
    agent = read_agent(workspace, "bot")
    assert agent.models == ["openai:gpt-5"]
    assert (agent.chat, agent.task, agent.daemon) == (ModeSettings(), ModeSettings(), DaemonSettings(enabled=False))
    assert (agent.tools, agent.skills, agent.mcp_servers, agent.soul) == ([], [], {}, None)
    assert agent.unknown_outcome is UnknownOutcome.TELL
    assert agent.working_folder is None


@pytest.mark.parametrize("name", ["files", "a/b", "agents2", "my-agents", "a/agents", "v1.2", "_x"])
def test_a_working_folder_is_a_folder_of_the_workspace(workspace: Workspace, name: str) -> None:
    write_agent(workspace, working_folder=name)
    assert read_agent(workspace, "bot").working_folder == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../a",
        "a/..",
        "/",
        "/tmp/",
        "/tmp/../etc",
        "/tmp//a",
        "/tmp/*",
        "/tmp/a\x00",
        "a//b",
        "a/",
        ".holdfast",
        ".holdfast/files",
        "agents",
        "agents/bot",
        "Agents",
    ]
    + [
        "tools",
        "skills/x",
        "settings.json",
        "SETTINGS.json/x",
        "a\x00",
        "a\n",
        "~",
        "a b",
        "x" * 65,
        "/".join("x" * 9),
    ],
)
def test_a_working_folder_outside_or_reserved_is_rejected(workspace: Workspace, name: str) -> None:
    write_agent(workspace, working_folder=name)
    with pytest.raises(Invalid, match="agent.json: line 1: working_folder: expected a folder of the workspace"):
        read_agent(workspace, "bot")


def test_an_unknown_skill_is_rejected_with_its_line(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    (folder / "agent.json").write_text('{"model": "a:b",\n"skills": ["summarise",\n"code-reviews"]}')
    problem = "line 3: skills[1]: there is no skill `code-reviews`: did you mean `code-review`?"
    with pytest.raises(Invalid, match=re.escape(f"agents/bot/agent.json: {problem}")):
        read_agent(workspace, "bot")


@pytest.mark.parametrize("skills", [[], ["summarise", "mine", "flat"], "auto", "*"])
def test_skills_are_names_auto_or_all(workspace: Workspace, skills: Json) -> None:
    folder = write_agent(workspace, daemon={"enabled": False}, skills=skills)
    (folder / "skills" / "mine").mkdir(parents=True)
    (folder / "skills" / "mine" / "SKILL.md").write_text("broken, and still known")
    workspace.skills.mkdir()
    (workspace.skills / "flat.md").write_text("---\ndescription: x\n---\n")
    assert read_agent(workspace, "bot").skills == skills


def test_an_agent_is_valid_again_once_its_skill_is_there(workspace: Workspace) -> None:
    write_agent(workspace, skills=["late"])
    seconds = count()
    agents = FolderAgents(workspace, monotonic=lambda: float(next(seconds)))
    assert [broken.name for broken in agents.broken()] == ["bot"]
    (workspace.skills / "late").mkdir(parents=True)
    (workspace.skills / "late" / "SKILL.md").write_text("---\ndescription: x\n---\n")
    assert agents.get("bot").skills == ["late"]


def test_a_non_empty_soul_is_read(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    (folder / "SOUL.md").write_text(" \n")
    assert read_agent(workspace, "bot").soul is None
    (folder / "SOUL.md").write_text("Be kind.\n")
    assert read_agent(workspace, "bot").soul == "Be kind."


def test_other_files_and_folders_are_ignored(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    before = read_agent(workspace, "bot")
    for name in ("skills", "tools"):
        (folder / name).mkdir()
        (folder / name / "anything.bin").write_bytes(b"\xff")
    assert read_agent(workspace, "bot") == before


def test_files_may_begin_with_a_byte_order_mark(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    for name in ("agent.json", "AGENT.md"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert read_agent(workspace, "bot").instructions == "Help people."


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md", "SOUL.md"])
def test_the_digest_changes_with_any_of_the_files(workspace: Workspace, file: str) -> None:
    folder = write_agent(workspace)
    (folder / "SOUL.md").write_text("Be kind.")
    before = read_agent(workspace, "bot")
    (folder / file).write_text((folder / file).read_text() + "\n")
    after = read_agent(workspace, "bot")
    assert after.digest != before.digest


def test_the_digest_depends_on_which_file_has_which_text(workspace: Workspace) -> None:
    folder = write_agent(workspace, says="one")
    (folder / "SOUL.md").write_text("two")
    one = read_agent(workspace, "bot").digest
    write_agent(workspace, says="onetwo")
    (folder / "SOUL.md").unlink()
    assert read_agent(workspace, "bot").digest != one


@pytest.mark.parametrize("name", ["Bot", "my bot", "_bot", "-bot", "bot.old", "böt", "b" * 65, "../agents/bot"])
def test_a_folder_with_an_invalid_agent_name_is_rejected(workspace: Workspace, name: str) -> None:
    write_agent(workspace, name)
    with pytest.raises(Invalid) as refused:
        read_agent(workspace, name)
    assert refused.value.message.startswith(f"agents/{name}: ")
    assert "rename the folder" in refused.value.message


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md"])
def test_a_missing_file_is_named(workspace: Workspace, file: str) -> None:
    (write_agent(workspace) / file).unlink()
    assert _error_message(workspace) == f"agents/bot/{file}: missing"


@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_empty_instructions_are_rejected(workspace: Workspace, text: str) -> None:
    write_agent(workspace, says=text)
    assert _error_message(workspace).startswith("agents/bot/AGENT.md: is empty")


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md", "SOUL.md"])
def test_a_file_that_is_not_utf_8_is_rejected(workspace: Workspace, file: str) -> None:
    (write_agent(workspace) / file).write_bytes(b'{"model": "\xff"}')
    assert _error_message(workspace) == f"agents/bot/{file}: is not UTF-8: byte 12 is invalid"


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md", "SOUL.md"])
def test_a_nul_character_is_refused(workspace: Workspace, file: str) -> None:
    (write_agent(workspace) / file).write_bytes(b"\x00")
    assert _error_message(workspace) == f"agents/bot/{file}: contains a NUL character"


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md", "SOUL.md"])
def test_a_file_has_at_most_256_kib(workspace: Workspace, file: str) -> None:
    path = write_agent(workspace) / file
    small = path.read_bytes() if path.exists() else b"Be kind."
    path.write_bytes(small.ljust(MAX_FILE_BYTES))
    read_agent(workspace, "bot")
    path.write_bytes(small.ljust(MAX_FILE_BYTES + 1))
    with pytest.raises(TooLarge, match=f"agents/bot/{file}: .*262144 bytes"):
        read_agent(workspace, "bot")


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md", "SOUL.md"])
def test_a_link_may_not_lead_out_of_the_workspace(workspace: Workspace, tmp_path: Path, file: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text('{"model": "openai:gpt-5"}')
    path = write_agent(workspace) / file
    path.unlink(missing_ok=True)
    path.symlink_to(outside)
    assert _error_message(workspace) == f"agents/bot/{file}: is a link out of the workspace: put the file itself here"


def test_a_whole_folder_may_not_lead_out_of_the_workspace(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write_agent(workspace).rename(outside)
    (workspace.agents / "bot").symlink_to(outside)
    assert "is a link out of the workspace" in _error_message(workspace)


def test_a_link_may_lead_to_another_place_in_the_workspace(workspace: Workspace) -> None:
    (workspace.path / "shared.md").write_text("Shared.")
    folder = write_agent(workspace)
    (folder / "SOUL.md").symlink_to("../../shared.md")
    assert read_agent(workspace, "bot").soul == "Shared."


def test_a_link_loop_is_rejected(workspace: Workspace) -> None:
    (write_agent(workspace) / "SOUL.md").symlink_to("SOUL.md")
    assert _error_message(workspace).startswith("agents/bot/SOUL.md: cannot be read: ")


def test_a_dangling_link_is_a_missing_file(workspace: Workspace) -> None:
    (write_agent(workspace) / "SOUL.md").symlink_to("nowhere.md")
    assert _error_message(workspace) == "agents/bot/SOUL.md: missing"


def test_a_folder_instead_of_a_file_is_rejected(workspace: Workspace) -> None:
    (write_agent(workspace) / "SOUL.md").mkdir()
    assert _error_message(workspace) == "agents/bot/SOUL.md: is not a regular file"


def test_a_pipe_instead_of_a_file_is_rejected_without_blocking(workspace: Workspace) -> None:
    os.mkfifo(write_agent(workspace) / "SOUL.md")
    assert _error_message(workspace) == "agents/bot/SOUL.md: is not a regular file"


def _error_message(workspace: Workspace) -> str:
    with pytest.raises(Invalid) as refused:
        read_agent(workspace, "bot")
    assert refused.value.details["file"] == refused.value.message.partition(":")[0]
    return refused.value.message


HEARTBEAT: Json = {"name": "check", "schedule": "*/15 * * * *", "timezone": "Asia/Tokyo"}


def write_daemon(workspace: Workspace, *heartbeats: Json, files: Mapping[str, str] | None = None) -> Path:
    folder = write_agent(workspace, daemon={"enabled": True, "heartbeats": list(heartbeats)})
    (folder / "heartbeats").mkdir()
    for name, text in ({"check.md": "Look around."} if files is None else files).items():
        (folder / "heartbeats" / name).write_text(text)
    return folder


def test_a_daemon_has_the_prompts_of_its_heartbeats(workspace: Workspace) -> None:
    write_daemon(workspace, HEARTBEAT)
    agent = read_agent(workspace, "bot")
    assert agent.heartbeat_prompts == {"check": "Look around."}
    assert (agent.daemon.heartbeats[0].timezone, agent.daemon.heartbeats[0].overlap) == ("Asia/Tokyo", "skip")


def test_another_prompt_is_another_version_of_the_agent(workspace: Workspace) -> None:
    folder = write_daemon(workspace, HEARTBEAT)
    before = read_agent(workspace, "bot")
    (folder / "heartbeats" / "check.md").write_text("Look again.")
    after = read_agent(workspace, "bot")
    assert (after.heartbeat_prompts, after.digest == before.digest) == ({"check": "Look again."}, False)


@pytest.mark.parametrize(
    ("heartbeats", "files", "problem"),
    [
        ([HEARTBEAT], {}, "agent.json: line 1: daemon.heartbeats[0].name: `heartbeats/check.md` is missing or empty"),
        ([HEARTBEAT], {"check.md": " "}, "agent.json: line 1: daemon.heartbeats[0].name: `heartbeats/check.md` is"),
        ([HEARTBEAT], {"check.md": "x", "other.md": "x"}, "heartbeats/other.md: line 1: belongs to no heartbeat"),
        ([HEARTBEAT, HEARTBEAT], {"check.md": "x"}, "agent.json: line 1: daemon.heartbeats[1].name: `check` is there"),
        ([], {}, "agent.json: line 1: daemon.heartbeats: a daemon needs at least one heartbeat"),
        (
            [{**HEARTBEAT, "schedule": "often"}],
            None,
            "agent.json: line 1: daemon.heartbeats[0].schedule: `often` is not a",
        ),
        (
            [{**HEARTBEAT, "schedule": "0 0 30 2 *"}],
            None,
            "agent.json: line 1: daemon.heartbeats[0].schedule: `0 0 30 2 *`",
        ),
        ([{**HEARTBEAT, "timezone": "Mars"}], None, "agent.json: line 1: daemon.heartbeats[0].timezone: `Mars` is not"),
        ([{**HEARTBEAT, "name": "a/b"}], None, "agent.json: line 1: daemon.heartbeats[0].name: expected 1 to 64"),
        ([{**HEARTBEAT, "thread": "old"}], None, "agent.json: line 1: daemon.heartbeats[0].thread: expected one of"),
        (
            [{**HEARTBEAT, "thread": "new", "overlap": "queue"}],
            None,
            "agent.json: line 1: daemon.heartbeats[0].overlap: `overlap: queue` needs one thread",
        ),
    ],
)
def test_a_wrong_heartbeat_is_an_error_with_file_and_line(
    workspace: Workspace, heartbeats: list[Json], files: Mapping[str, str] | None, problem: str
) -> None:
    write_daemon(workspace, *heartbeats, files=files)
    with pytest.raises(Invalid, match=re.escape(f"agents/bot/{problem}")):
        read_agent(workspace, "bot")
