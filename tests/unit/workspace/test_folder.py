import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from holdfast.domain.errors import Conflict, NotFound, Unavailable
from holdfast.domain.packages import install_command
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings


def test_a_workspace_has_fixed_paths(workspace: Workspace) -> None:
    assert workspace.agents == workspace.path / "agents"
    assert workspace.tools == workspace.path / "tools"
    assert workspace.skills == workspace.path / "skills"
    assert workspace.settings == workspace.path / "settings.json"
    assert workspace.database == workspace.path / ".holdfast" / "holdfast.db"
    assert workspace.files == workspace.path / ".holdfast" / "files"
    assert workspace.logs == workspace.path / ".holdfast" / "logs"


def test_its_path_does_not_depend_on_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agents").mkdir()
    monkeypatch.chdir(tmp_path)
    assert Workspace(".").path == tmp_path.resolve()


@pytest.mark.parametrize("there", ["nothing", "a file", "an empty folder"])
def test_a_folder_without_agents_is_no_workspace_and_the_error_says_how_to_make_one(tmp_path: Path, there: str) -> None:
    path = tmp_path / "home"
    if there == "a file":
        path.write_text("")
    if there == "an empty folder":
        path.mkdir()
    with pytest.raises(NotFound, match=f"holdfast init {path}"):
        Workspace(path)


def test_opening_a_workspace_creates_nothing(workspace: Workspace) -> None:
    assert not workspace.data_folder.exists()


def test_the_data_folder_is_created_once_and_private(workspace: Workspace) -> None:
    workspace.prepare()
    (workspace.files / "kept").write_text("x")
    (workspace.data_folder / ".gitignore").write_text("mine")
    workspace.prepare()
    assert (workspace.files / "kept").read_text() == "x"
    assert (workspace.data_folder / ".gitignore").read_text() == "mine"
    assert workspace.logs.is_dir()
    assert stat.S_IMODE(workspace.data_folder.stat().st_mode) & 0o077 == 0


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_ignores_the_data_folder(workspace: Workspace) -> None:
    workspace.prepare()
    workspace.database.write_text("")
    workspace.settings.write_text("{}")
    subprocess.run(["git", "init", "-q"], cwd=workspace.path, check=True)
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    seen = subprocess.run(command, cwd=workspace.path, check=True, capture_output=True, text=True).stdout
    assert seen.split() == ["??", "settings.json"]


def test_a_file_instead_of_the_data_folder_is_an_error(workspace: Workspace) -> None:
    workspace.data_folder.write_text("")
    with pytest.raises(Unavailable, match=r"\.holdfast"):
        workspace.prepare()


def test_a_new_workspace_has_an_agent_that_needs_no_key_and_is_the_default(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "new" / "home")
    agents = FolderAgents(workspace)
    agent = agents.get(FolderSettings(workspace).get().default_agent or "")
    assert agents.broken() == []
    (model,) = agent.models
    provider, _, script = model.partition(":")
    assert provider == "scripted"
    assert agent.folder is not None
    assert (Path(agent.folder) / script).is_file()
    assert workspace.tools.is_dir() and workspace.skills.is_dir()


def test_a_new_workspace_has_an_agent_for_a_real_model_whose_provider_is_in_the_settings(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    (model,) = FolderAgents(workspace).get("assistant").models
    provider = FolderSettings(workspace).get().providers[model.partition(":")[0]]
    assert (provider.api, provider.api_key_env) == ("openai", "OPENAI_API_KEY")


def test_a_chosen_model_is_that_of_every_agent_but_the_one_that_always_answers(tmp_path: Path) -> None:
    agents = FolderAgents(Workspace.create(tmp_path, model="openai:gpt-5"))
    assert agents.broken() == []
    assert {agent.name: agent.models for agent in agents.all()} == {
        agent.name: ["scripted:script.json" if agent.name == "hello" else "openai:gpt-5"] for agent in agents.all()
    }


def test_the_readme_of_a_new_workspace_has_the_commands_that_install_providers(tmp_path: Path) -> None:
    readme = (Workspace.create(tmp_path).agents / "assistant" / "README.md").read_text()
    assert install_command("openai") in readme and install_command("anthropic") in readme


def test_the_watching_agent_of_a_new_workspace_does_nothing_before_it_is_enabled(tmp_path: Path) -> None:
    daemon = FolderAgents(Workspace.create(tmp_path)).get("monitor").daemon
    assert not daemon.allowed and [heartbeat.name for heartbeat in daemon.heartbeats] == ["logs"]


def test_a_workspace_can_be_created_beside_other_files(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    Workspace.create(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["agents", "tools", "skills", "settings.json"])
def test_an_existing_file_stops_creation_before_anything_is_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(Conflict, match=name):
        Workspace.create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "settings.json").symlink_to("nowhere")
    with pytest.raises(Conflict, match=r"settings\.json"):
        Workspace.create(tmp_path)


def test_a_workspace_cannot_be_created_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="file"):
        Workspace.create(tmp_path / "file")
