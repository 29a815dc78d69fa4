import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.agent import ModeSettings, Permissions, UnknownOutcome
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.limits import Limits
from holdfast.domain.mcp_server import McpServer
from holdfast.workspace.agents import read_agent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.text_files import MAX_FILE_BYTES
from tests.unit.workspace.workspace_files import write_agent, write_json

EVERY_KEY: dict[str, Any] = {
    "$schema": "agent.schema.json",
    "model": ["openai:gpt-5", "local:llama3:8b"],
    "description": "Keeps the books.",
    "chat": {"enabled": False},
    "task": {},
    "daemon": {"enabled": True},
    "tools": ["sleep", "plan_create", "sleep"],
    "permissions": {"deny": ["bash(rm *)"], "ask": ["bash"], "allow": ["read_file"]},
    "limits": {"max_iterations": 20, "max_duration_seconds": 600, "token_budget": 10**6, "cost_budget_usd": 0.5},
    "unknown_outcome": "ask",
    "temperature": 1,
    "thinking": "high",
    "mcp_servers": {"github": {"command": "mcp-github", "args": ["--read-only"]}},
    "skills": ["code-review"],
    "working_folder": "projects/site",
}


def test_every_key_is_read(workspace: Workspace) -> None:
    write_agent(workspace, "book_keeper-2", says="# Books\n\nKeep them.\n", **EVERY_KEY)
    agent = read_agent(workspace, "book_keeper-2")
    assert agent.name == "book_keeper-2"
    assert agent.models == ["openai:gpt-5", "local:llama3:8b"]
    assert agent.description == "Keeps the books."
    assert agent.instructions == "# Books\n\nKeep them."
    assert (agent.chat.enabled, agent.task.enabled, agent.daemon.enabled) == (False, True, True)
    assert agent.tools == ["sleep", "plan_create"]
    assert agent.permissions == Permissions(deny=["bash(rm *)"], ask=["bash"], allow=["read_file"])
    assert agent.limits == Limits(max_iterations=20, max_duration_seconds=600, token_budget=10**6, cost_budget_usd=0.5)
    assert agent.unknown_outcome is UnknownOutcome.ASK
    assert (agent.temperature, agent.thinking) == (1.0, "high")
    assert agent.mcp_servers == {"github": McpServer(command="mcp-github", args=["--read-only"])}
    assert agent.skills == ["code-review"]
    assert agent.working_folder == "projects/site"
    assert agent.folder == str(workspace.agents / "book_keeper-2")


def test_only_the_model_is_required(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    write_json(folder / "agent.json", {"model": "openai:gpt-5"})
    agent = read_agent(workspace, "bot")
    assert agent.models == ["openai:gpt-5"]
    assert (agent.chat, agent.task, agent.daemon) == (ModeSettings(), ModeSettings(), ModeSettings(enabled=False))
    assert (agent.tools, agent.skills, agent.mcp_servers, agent.soul) == ([], [], {}, None)
    assert agent.unknown_outcome is UnknownOutcome.TELL
    assert agent.working_folder == "files"


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
        "/tmp",
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


def test_a_non_empty_soul_is_read(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    (folder / "SOUL.md").write_text(" \n")
    assert read_agent(workspace, "bot").soul is None
    (folder / "SOUL.md").write_text("Be kind.\n")
    assert read_agent(workspace, "bot").soul == "Be kind."


def test_other_files_and_folders_are_ignored(workspace: Workspace) -> None:
    folder = write_agent(workspace)
    before = read_agent(workspace, "bot")
    for name in ("skills", "heartbeats", "tools"):
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
