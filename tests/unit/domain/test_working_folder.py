"""The working folder of a run is decided by its space, its root thread and its agent."""

import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.run import Run
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.working_folder import folder_name, named_folder, working_folder
from holdfast.tools.permissions.policy import values_for_child
from tests.support.calls import a_call

PASTRY: Final = SpaceId("pastry")


def a_run(space: SpaceId, *, thread: str = "thr_1") -> Run:
    """Return a run of a root thread."""
    return replace(a_call().run, space_id=space, root_thread_id=ThreadId(thread))


def an_agent(folder: str | None = None, **fields: Any) -> Agent:
    """Return an agent that names a working folder."""
    return Agent(name="bot", description="", models=["a:b"], instructions="x", working_folder=folder, **fields)


@pytest.mark.parametrize(
    ("space", "named", "expected"),
    [
        (DEFAULT_SPACE, None, "files"),
        (DEFAULT_SPACE, "projects/site", "projects/site"),
        (PASTRY, None, ".holdfast/spaces/pastry/threads/thr_1"),
        (PASTRY, "projects/site", ".holdfast/spaces/pastry/folders/projects/site"),
        (PASTRY, "files", ".holdfast/spaces/pastry/folders/files"),
    ],
)
def test_a_run_has_the_folder_of_its_space_and_thread(space: SpaceId, named: str | None, expected: str) -> None:
    assert working_folder(a_run(space), an_agent(named), {}) == expected


@pytest.mark.parametrize(
    ("space", "of_root", "expected"),
    [
        (PASTRY, ".holdfast/spaces/pastry/threads/thr_root", ".holdfast/spaces/pastry/threads/thr_root"),
        (PASTRY, ".holdfast/spaces/pastry/folders/site", ".holdfast/spaces/pastry/folders/site"),
        (PASTRY, "/srv/site", "/srv/site"),
        (PASTRY, None, ".holdfast/spaces/pastry/threads/thr_1"),  # the root was started by an earlier version
        (DEFAULT_SPACE, "projects/site", "files"),
        (DEFAULT_SPACE, "/srv/site", "/srv/site"),
    ],
)
def test_a_run_that_was_spawned_has_the_folder_of_its_root(space: SpaceId, of_root: str | None, expected: str) -> None:
    values: Mapping[str, Json] = {}
    for folder in (of_root, "elsewhere"):
        values = values_for_child(an_agent(), values, folder=folder)
    listed = an_agent(project_folders={"/srv/site": [PASTRY, DEFAULT_SPACE]})
    assert working_folder(a_run(space), listed, values) == expected
    named = replace(listed, working_folder="own")
    assert working_folder(a_run(space), named, values) == named_folder(space, "own")


def test_a_folder_outside_the_workspace_is_only_for_listed_spaces() -> None:
    agent = an_agent("/srv/site", project_folders={"/srv/site": [PASTRY], "/srv": [SpaceId("bread")]})
    assert working_folder(a_run(PASTRY), agent, {}) == "/srv/site"
    inherited = values_for_child(agent, {}, folder="/srv/site")
    for space in (DEFAULT_SPACE, SpaceId("bread")):
        for refused_agent, values in ((agent, {}), (replace(agent, working_folder=None), inherited)):
            with pytest.raises(Conflict, match=f"space `{space}` may not use") as refused:
                working_folder(a_run(space), refused_agent, values)
            assert "/srv/site" not in refused.value.message


HOSTILE: Final = ["..", ".", "", "a/b", "../../etc", "Pastry", "PASTRY", "pastry.", "a\0b", "ü", "\ud800", "x" * 300]


@pytest.mark.parametrize("id", HOSTILE)
def test_no_id_leads_out_of_its_folder(id: str) -> None:
    name = folder_name(id)
    assert re.fullmatch(r"[a-z0-9_-]+\.[0-9a-f]{32}|\.[0-9a-f]{32}", name), name
    assert len(name) <= 255
    assert named_folder(SpaceId(id), "a") == f".holdfast/spaces/{name}/folders/a"


@given(st.lists(st.one_of(st.text(), st.text("aA.b_0-", max_size=4)), unique=True))
def test_no_two_ids_have_the_same_folder_even_if_case_does_not_matter(ids: list[str]) -> None:
    assert len({folder_name(id).lower() for id in ids}) == len(ids)
