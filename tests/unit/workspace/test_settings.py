from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.agent import Agent, Permissions
from holdfast.domain.errors import Invalid
from holdfast.domain.limits import Limits
from holdfast.domain.model_provider import ProviderSettings
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import ContextSettings, FolderSettings, GitIdentity, Settings, with_defaults
from holdfast.workspace.settings_file import WorkspaceSettingsFile
from tests.unit.workspace.workspace_files import FakeClock, replace, write_json

AGENT = Agent(name="bot", description="", models=["a:b"], instructions="Help.", digest="d")

counts = st.none() | st.integers(1, 100)
limits = st.builds(Limits, max_iterations=counts, max_duration_seconds=counts, token_budget=counts)
rules = st.lists(st.sampled_from(["bash", "bash(git *)", "read_file"]), max_size=3)
permissions = st.builds(Permissions, deny=rules, ask=rules, allow=rules)


@pytest.fixture
def settings(workspace: Workspace, clock: FakeClock) -> FolderSettings:
    return FolderSettings(workspace, monotonic=clock)


def test_every_key_is_read(workspace: Workspace, settings: FolderSettings) -> None:
    value: dict[str, Any] = {
        "$schema": "settings.schema.json",
        "providers": {"local": {"api": "openai", "base_url": "http://127.0.0.1:11434/v1", "context_window": 8192}},
        "limits": {"max_iterations": 50},
        "permissions": {"deny": ["bash(rm *)"]},
        "default_agent": "hello",
        "locale": "ja",
        "workers": 4,
        "context": {"tools_shown": 20, "anti_drift_every": None},
    }
    write_json(workspace.settings, value)
    assert settings.get() == Settings(
        schema_="settings.schema.json",
        providers={"local": ProviderSettings(api="openai", base_url="http://127.0.0.1:11434/v1", context_window=8192)},
        limits=Limits(max_iterations=50),
        permissions=Permissions(deny=["bash(rm *)"]),
        default_agent="hello",
        locale="ja",
        workers=4,
        context=ContextSettings(tools_shown=20, anti_drift_every=None),
    )


def test_a_missing_file_equals_an_empty_one(workspace: Workspace, settings: FolderSettings) -> None:
    assert settings.get() == Settings()
    write_json(workspace.settings, {})
    settings.refresh()
    assert settings.get() == Settings()
    assert settings.broken() is None


def test_settings_that_never_were_valid_raise_their_error(workspace: Workspace, settings: FolderSettings) -> None:
    write_json(workspace.settings, {"worker": 3})
    for _ in range(2):
        with pytest.raises(Invalid, match=r"^settings\.json: line 1: worker: unknown key, known are .*`workers`"):
            settings.get()


def test_an_invalid_edit_keeps_the_last_valid_version_and_reports_the_error(
    workspace: Workspace, settings: FolderSettings, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    write_json(workspace.settings, {"workers": 3})
    assert settings.get().workers == 3
    replace(workspace.settings, "{")
    clock.next_poll()
    assert settings.get().workers == 3
    error = settings.broken()
    assert error is not None and error.message.startswith("settings.json: is not JSON: line 1, column 2: ")
    assert [record.name for record in caplog.records] == ["holdfast.workspace"]
    replace(workspace.settings, '{"workers": 4}')
    clock.next_poll()
    assert settings.get().workers == 4
    assert settings.broken() is None


def test_a_link_may_not_lead_out_of_the_workspace(workspace: Workspace, settings: FolderSettings) -> None:
    outside = workspace.path.parent / "settings.json"
    write_json(outside, {})
    workspace.settings.symlink_to(outside)
    with pytest.raises(Invalid, match=r"^settings\.json: is a link out of the workspace"):
        settings.get()


def test_default_settings_leave_an_agent_unchanged() -> None:
    assert with_defaults(AGENT, Settings(workers=2, default_agent="bot")) is AGENT


@given(own=limits, default=limits)
def test_a_limit_of_the_agent_overrides_the_default(own: Limits, default: Limits) -> None:
    agent = Agent(name="bot", description="", models=["a:b"], instructions="Help.", limits=own)
    merged = with_defaults(agent, Settings(limits=default)).limits
    for field in Limits.__struct_fields__:
        mine, theirs = getattr(own, field), getattr(default, field)
        assert getattr(merged, field) == (theirs if mine is None else mine)


@given(own=permissions, common=permissions)
def test_rules_of_the_workspace_come_first_and_none_is_lost(own: Permissions, common: Permissions) -> None:
    agent = Agent(name="bot", description="", models=["a:b"], instructions="Help.", permissions=own)
    merged = with_defaults(agent, Settings(permissions=common)).permissions
    assert merged == Permissions(deny=common.deny + own.deny, ask=common.ask + own.ask, allow=common.allow + own.allow)


def test_the_digest_changes_with_the_defaults() -> None:
    found = [
        with_defaults(AGENT, Settings()).digest,
        with_defaults(AGENT, Settings(limits=Limits(max_iterations=1))).digest,
        with_defaults(AGENT, Settings(limits=Limits(max_iterations=2))).digest,
        with_defaults(AGENT, Settings(permissions=Permissions(deny=["bash"]))).digest,
    ]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("folders", "problem"),
    [
        ({"{workspace}": ["a"]}, "project_folders.{workspace}: is in the workspace or contains it"),
        ({"{workspace}/.holdfast": ["a"]}, "project_folders.{workspace}/.holdfast: is in the workspace or contains it"),
        ({"{parent}": ["a"]}, "project_folders.{parent}: is in the workspace or contains it"),
        (
            {"/srv": ["a", "b"], "/srv/site": ["a"]},
            "project_folders./srv/site: is in `/srv`, which other spaces may use: list the same spaces for both",
        ),
        ({"/srv/": ["a"]}, "project_folders./srv/: expected the absolute path of a folder"),
        ({"/srv": []}, "project_folders./srv.spaces: expected"),
        ({"/srv": ["../a"]}, "project_folders./srv.spaces[0]: expected the id of a space"),
    ],
)
async def test_a_project_folder_that_would_give_an_agent_more_is_refused(
    workspace: Workspace, settings: FolderSettings, folders: dict[str, list[str]], problem: str
) -> None:
    def fill(text: str) -> str:
        return text.replace("{workspace}", str(workspace.path)).replace("{parent}", str(workspace.path.parent))

    value = {"project_folders": {fill(path): {"spaces": spaces} for path, spaces in folders.items()}}
    file = WorkspaceSettingsFile(workspace, settings)
    with pytest.raises(Invalid) as refused:
        await file.change(value, tag=file.read().tag)
    assert fill(problem) in refused.value.message
    assert not workspace.settings.exists()
    write_json(workspace.settings, value)
    settings.refresh()
    error = settings.broken()
    assert error is not None and fill(problem) in error.message


def test_a_project_folder_in_another_of_the_same_spaces_is_accepted(
    workspace: Workspace, settings: FolderSettings
) -> None:
    folders = {path: {"spaces": spaces} for path, spaces in (("/srv", ["a", "b"]), ("/srv/site", ["b", "a"]))}
    write_json(workspace.settings, {"project_folders": folders, "git": {"name": "Ada", "email": "ada@example.org"}})
    assert [*settings.get().project_folders] == ["/srv", "/srv/site"]
    assert settings.get().git == GitIdentity(name="Ada", email="ada@example.org")
