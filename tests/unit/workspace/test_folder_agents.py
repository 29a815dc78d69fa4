import logging
import os
import shutil

import pytest

from holdfast.domain.errors import Invalid, NotFound, Unavailable
from holdfast.domain.limits import Limits
from holdfast.ports.workspace import BrokenAgent
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import ProjectFolder, Settings
from tests.unit.workspace.workspace_files import FakeClock, replace, write_agent

NOT_JSON = "agents/bot/agent.json: is not JSON: line 1, column 2: "


@pytest.fixture
def agents(workspace: Workspace, clock: FakeClock) -> FolderAgents:
    return FolderAgents(workspace, monotonic=clock)


def test_an_empty_folder_has_no_agents(agents: FolderAgents) -> None:
    assert agents.all() == []


def test_agents_are_listed_by_name(workspace: Workspace, agents: FolderAgents) -> None:
    for name in ("writer", "bot", "analyst"):
        write_agent(workspace, name, says=f"I am {name}.")
    assert [(agent.name, agent.instructions) for agent in agents.all()] == [
        ("analyst", "I am analyst."),
        ("bot", "I am bot."),
        ("writer", "I am writer."),
    ]


def test_other_folders_and_files_are_not_agents(workspace: Workspace, agents: FolderAgents) -> None:
    (workspace.agents / "README.md").write_text("Our agents.")
    (workspace.agents / "shared").mkdir()
    shutil.move(write_agent(workspace), workspace.agents / ".bot")
    assert (agents.all(), agents.broken()) == ([], [])


@pytest.mark.parametrize("name", ["nobody", "", ".", "..", "../bot", "bot/", "README.md"])
def test_an_unknown_agent_is_not_found(workspace: Workspace, agents: FolderAgents, name: str) -> None:
    write_agent(workspace)
    with pytest.raises(NotFound, match="no agent"):
        agents.get(name)


def test_an_agent_that_never_was_valid_raises_its_error(workspace: Workspace, agents: FolderAgents) -> None:
    (write_agent(workspace) / "agent.json").write_text("{")
    write_agent(workspace, "other")
    for _ in range(2):
        with pytest.raises(Invalid, match=NOT_JSON):
            agents.get("bot")
    (broken,) = agents.broken()
    assert (broken.name, broken.file) == ("bot", "agents/bot/agent.json")
    assert broken.message.startswith(NOT_JSON)
    assert [agent.name for agent in agents.all()] == ["other"]


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md", "SOUL.md"])
def test_a_change_of_any_file_is_seen(workspace: Workspace, agents: FolderAgents, clock: FakeClock, file: str) -> None:
    folder = write_agent(workspace)
    before = agents.get("bot")
    replace(folder / file, '{"model": "openai:gpt-5"}')
    clock.next_poll()
    after = agents.get("bot")
    assert after.digest != before.digest
    assert (after.models, after.instructions, after.soul) != (before.models, before.instructions, before.soul)


def test_files_are_polled_at_most_every_200_ms(workspace: Workspace, agents: FolderAgents, clock: FakeClock) -> None:
    write_agent(workspace, says="one")
    agents.get("bot")
    write_agent(workspace, says="two")
    clock.now += 0.19
    assert agents.get("bot").instructions == "one"
    clock.now += 0.02
    assert agents.get("bot").instructions == "two"


def test_a_refresh_sees_a_change_immediately(workspace: Workspace, agents: FolderAgents) -> None:
    write_agent(workspace, says="one")
    agents.get("bot")
    write_agent(workspace, says="two")
    agents.refresh()
    assert agents.get("bot").instructions == "two"


def test_a_new_agent_is_found_immediately(workspace: Workspace, agents: FolderAgents) -> None:
    assert agents.all() == []
    write_agent(workspace)
    assert agents.get("bot").name == "bot"


def test_an_agent_whose_folder_is_removed_is_not_found(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock
) -> None:
    folder = write_agent(workspace)
    agents.get("bot")
    shutil.rmtree(folder)
    clock.next_poll()
    with pytest.raises(NotFound):
        agents.get("bot")
    assert (agents.all(), agents.broken()) == ([], [])


def test_a_recreated_agent_keeps_no_earlier_version(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock
) -> None:
    folder = write_agent(workspace)
    agents.get("bot")
    shutil.rmtree(folder)
    clock.next_poll()
    agents.all()
    (write_agent(workspace) / "agent.json").write_text("{")
    with pytest.raises(Invalid):
        agents.get("bot")


def test_an_invalid_edit_keeps_the_last_valid_version_and_reports_the_error(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock
) -> None:
    folder = write_agent(workspace, says="one")
    good = agents.get("bot")
    replace(folder / "agent.json", "{")
    replace(folder / "AGENT.md", "two")
    clock.next_poll()
    assert agents.get("bot") == good
    assert agents.all() == [good]
    assert [broken.name for broken in agents.broken()] == ["bot"]
    replace(folder / "agent.json", '{"model": "openai:gpt-5"}')
    clock.next_poll()
    assert agents.broken() == []
    assert (agents.get("bot").models, agents.get("bot").instructions) == (["openai:gpt-5"], "two")


@pytest.mark.parametrize("file", ["agent.json", "AGENT.md"])
def test_a_briefly_missing_file_does_not_remove_the_agent(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock, file: str
) -> None:
    folder = write_agent(workspace)
    good = agents.get("bot")
    (folder / file).unlink()
    clock.next_poll()
    assert agents.get("bot") == good
    assert agents.broken() == [
        BrokenAgent(name="bot", file=f"agents/bot/{file}", message=f"agents/bot/{file}: missing")
    ]


def test_an_edit_with_an_unchanged_timestamp_is_seen_before_the_file_settles(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock
) -> None:
    file = write_agent(workspace, says="one") / "AGENT.md"
    agents.get("bot")
    _edit_unnoticed(file, "two")
    clock.next_poll()
    assert agents.get("bot").instructions == "two"


def test_settled_files_are_not_read_again(workspace: Workspace, agents: FolderAgents, clock: FakeClock) -> None:
    file = write_agent(workspace, says="one") / "AGENT.md"
    agents.get("bot")
    clock.settle()
    agents.get("bot")
    _edit_unnoticed(file, "two")
    clock.next_poll()
    assert agents.get("bot").instructions == "one"


def test_an_unchanged_agent_stays_the_same_object(workspace: Workspace, agents: FolderAgents, clock: FakeClock) -> None:
    folder = write_agent(workspace)
    before = agents.get("bot")
    os.utime(folder / "AGENT.md")
    clock.next_poll()
    assert agents.get("bot") is before


def test_an_error_is_logged_once_until_it_changes(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="holdfast.workspace")
    folder = write_agent(workspace)
    agents.get("bot")
    assert caplog.messages == []
    for text in ("{", "{", "[]", '{"model": "openai:gpt-5"}'):
        replace(folder / "agent.json", text)
        for _ in range(3):
            clock.next_poll()
            agents.get("bot")
    broken, changed, good = caplog.messages
    assert broken.startswith(NOT_JSON) and broken.endswith("(the last valid version stays in use)")
    assert changed.startswith("agents/bot/agent.json: expected `object`")
    assert good == "agents/bot/agent.json: is valid again"
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_an_agent_that_never_was_valid_is_logged_as_unusable(
    workspace: Workspace, agents: FolderAgents, caplog: pytest.LogCaptureFixture
) -> None:
    write_agent(workspace, says="")
    agents.all()
    (message,) = caplog.messages
    assert message.endswith("(cannot be used)")


def test_a_folder_with_an_undecodable_name_is_broken_and_printable(workspace: Workspace, agents: FolderAgents) -> None:
    try:
        os.rename(write_agent(workspace), os.fsencode(workspace.agents) + b"/b\xff")
    except OSError:
        pytest.skip("this file system takes no such name")
    (broken,) = agents.broken()
    assert broken.name == r"b\udcff"
    broken.message.encode()


def test_without_its_folder_a_workspace_has_no_agents(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock
) -> None:
    write_agent(workspace)
    assert agents.all()
    shutil.rmtree(workspace.agents)
    clock.next_poll()
    assert agents.all() == []


def test_a_file_instead_of_the_folder_is_unavailable(
    workspace: Workspace, agents: FolderAgents, clock: FakeClock
) -> None:
    workspace.agents.rmdir()
    workspace.agents.write_text("")
    with pytest.raises(Unavailable, match="`agents`"):
        agents.all()


def test_agents_have_the_defaults_of_the_workspace_as_they_are_now(workspace: Workspace, clock: FakeClock) -> None:
    write_agent(workspace)
    now = Settings()
    agents = FolderAgents(workspace, settings=lambda: now, monotonic=clock)
    before = agents.get("bot")
    now = Settings(limits=Limits(max_iterations=3))
    assert agents.get("bot").limits.max_iterations == 3
    assert agents.all() == [agents.get("bot")]
    assert agents.get("bot").digest != before.digest


def test_an_agent_is_the_same_object_until_it_changes(workspace: Workspace, clock: FakeClock) -> None:
    write_agent(workspace)
    settings = Settings(limits=Limits(max_iterations=3))
    agents = FolderAgents(workspace, settings=lambda: settings, monotonic=clock)
    before = agents.get("bot")
    workspace.permissions.write_text('{"allow": {"bot": ["bash(ls)"]}}')
    assert agents.get("bot") is before
    clock.next_poll()
    assert agents.get("bot").granted == ["bash(ls)"]


def _edit_unnoticed(file: os.PathLike[str], text: str) -> None:
    """Edit a file in place, so quickly that its time does not change."""
    found = os.stat(file)
    with open(file, "w", encoding="utf-8") as opened:
        opened.write(text)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def test_a_working_folder_by_absolute_path_must_be_listed(workspace: Workspace, clock: FakeClock) -> None:
    listed, settings = {"/srv/site": ProjectFolder(spaces=["default", "pastry"])}, [Settings()]
    agents = FolderAgents(workspace, settings=lambda: settings[0], monotonic=clock)
    write_agent(workspace, working_folder="/srv/site")
    write_agent(workspace, "other")
    message = (
        "agents/bot/agent.json: working_folder: `/srv/site` is not in `project_folders` of settings.json: "
        "list it there with the spaces that may use it"
    )
    for settings[0] in (Settings(), Settings(project_folders={"/srv": listed["/srv/site"]})):
        with pytest.raises(Invalid) as refused:
            agents.get("bot")
        assert refused.value.message == message
        assert agents.broken() == [BrokenAgent(name="bot", file="agents/bot/agent.json", message=message)]
        assert [agent.name for agent in agents.all()] == ["other"]
    settings[0] = Settings(project_folders=listed)
    assert (agents.get("bot").working_folder, agents.broken()) == ("/srv/site", [])
    for agent in agents.all():
        assert agent.project_folders == {"/srv/site": ["default", "pastry"]}
    settings[0] = Settings()  # the last valid definition is not used either
    with pytest.raises(Invalid):
        agents.get("bot")


def test_an_unlisted_working_folder_is_logged_once(
    workspace: Workspace, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    settings = [Settings(project_folders={"/srv/site": ProjectFolder(spaces=["default"])})]
    agents = FolderAgents(workspace, settings=lambda: settings[0], monotonic=clock)
    write_agent(workspace, working_folder="/srv/site")
    agents.all()
    assert caplog.messages == []
    settings[0] = Settings()
    for _ in range(3):
        clock.next_poll()
        agents.all()
    (message,) = caplog.messages
    assert message.startswith("agents/bot/agent.json: working_folder: `/srv/site` is not in `project_folders`")
    assert message.endswith("(cannot be used)")
