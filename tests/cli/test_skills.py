"""`holdfast skill …`: import, list, disable, export, delete, the skills of a run, and a check without a server."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server_process import Server, run_server
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace, say

SKILL_MD = "---\nname: parcels\ndescription: Weigh parcels.\nmetadata: {triggers: [weigh parcel]}\n---\nUse the scales."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("skills")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("done"), skills="auto")
    with run_server(folder, "--quiet") as up:
        yield up


def test_a_folder_becomes_a_custom_skill_that_runs_choose(server: Server, tmp_path: Path) -> None:
    folder, archive, at = tmp_path / "parcels", tmp_path / "out.zip", ["--url", server.url]
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL_MD)
    (folder / "scripts" / "weigh.sh").write_text("echo 3 kg")
    made, shown, listed, catalog, ran = run_all(
        [
            ["skill", "import", str(folder), *at],
            ["skill", "show", "parcels", "--json", *at],
            ["skill", "list", *at],
            ["skill", "catalog", "--agent", "bot", *at],
            ["run", "start", "bot", "Weigh my parcel", "--json", *at],
        ]
    )
    assert (made.code, made.err.startswith("created: skill parcels (skl_")) == (0, True), made
    skill = json.loads(shown.out)
    assert (skill["triggers"], [file["path"] for file in skill["files"]]) == (["weigh parcel"], ["scripts/weigh.sh"])
    assert "parcels" in listed.out and "Weigh parcels." in listed.out
    assert any(line.split()[:3] == ["parcels", "space", "available"] for line in catalog.out.splitlines())
    run_id = json.loads(ran.out)["id"]
    _, of_run, exported, again, disabled, versions, deleted, gone = run_all(
        [
            ["run", "follow", run_id, *at],
            ["skill", "of-run", run_id, *at],
            ["skill", "export", "parcels", "--file", str(archive), *at],
            ["skill", "import", str(archive), *at],
            ["skill", "disable", "parcels", *at],
            ["skill", "versions", "parcels", "--json", *at],
            ["skill", "delete", "parcels", *at],
            ["skill", "show", "parcels", *at],
        ]
    )
    assert "parcels (space, relevant): trigger `weigh parcel`: 10.0" in of_run.out
    assert exported.code == 0 and sorted(zipfile.ZipFile(archive).namelist())[0] == "parcels/SKILL.md"
    assert again.err.startswith("changed to version 2: skill parcels")
    assert disabled.err == "disabled skill parcels\n"
    assert [each["enabled"] for each in json.loads(versions.out)] == [True, True, False]
    assert deleted.err == "deleted skill parcels\n"
    assert (gone.code, "[NOT_FOUND]" in gone.err) == (1, True)


def test_a_check_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "SKILL.md").write_text(SKILL_MD)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text("nothing")
    whole, one, none = run_all(
        [
            ["skill", "check", str(tmp_path), "--json"],
            ["skill", "check", str(tmp_path / "good")],
            ["skill", "check", str(tmp_path / "good" / "SKILL.md")],
        ]
    )
    assert (whole.code, [each["name"] for each in json.loads(whole.out)]) == (1, ["good"])
    assert "invalid: ./bad/SKILL.md: line 1: begins without a frontmatter" in whole.err
    assert "warning: good: its name `parcels` is not that of its folder" in whole.err
    assert one.code == 0 and none.code != 0
