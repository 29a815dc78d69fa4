"""Hostile skills: each is a clear error, and nothing else breaks."""

from itertools import count
from pathlib import Path

import pytest

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.run_skills import skill_restrictions
from holdfast.domain.skill import SkillSource
from holdfast.skills.folder import DiskFolder, read_skill_file
from holdfast.skills.skill_md import parse_skill
from holdfast.workspace.folder import Workspace
from holdfast.workspace.skills import WorkspaceSkills

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
GOOD = "---\ndescription: Weigh.\n---\nUse the scales."


def front(lines: str, body: str = "") -> str:
    return f"---\n{lines}\n---\n{body}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (front(f"name: x\ndescription: d\nmetadata:\n  x: 1\n{BOMB}"), "aliases are not allowed"),
        (front("description: &d d\nname: *d"), "line 3: the frontmatter cannot be read: aliases are not allowed"),
        (front("description: d", "x" * 10_000_000), "line 4: the instructions have more than 50000 characters"),
        (front(f"description: {'d' * 70_000}"), "line 1: the frontmatter has more than"),
        (front(f"description: {'d' * 3_000}"), "line 2: `description`"),
        (
            front(f"description: d\nmetadata:\n  triggers: [{', '.join(f't{n}' for n in range(5_000))}]"),
            "there are too many values",
        ),
        (
            front(f"description: d\nmetadata: {{triggers: '{','.join(f't{n}' for n in range(500))}'}}"),
            "at most 64 items",
        ),
        (front('description: "bell \\a"'), "line 2: `description`: `description` contains a control character"),
        (front("description: d", "a\x1b[2J"), "`instructions`: `instructions` contains a control character"),
        (front(f"description: d\nmetadata: {'[' * 200}{']' * 200}"), "nested too deeply"),
        (front("description: !!python/object/apply:os.system [ls]"), "the frontmatter cannot be read"),
        (front("description: d\nmetadata: {priority: 1" + "0" * 5_000 + "}"), "line"),
        (
            front("description: d\nmetadata: {execution_contract: {must_produce: [{kind: artifact, title: '('}]}}"),
            "line 3",
        ),
        (front("description: d\n? [a, b]\n: c"), "line"),
        (front("description: d\nmetadata: {x: {null: 1}}"), "a value that cannot be read"),
        (front('description: d\nmetadata: {x: "\\ud800"}'), "a value that cannot be read"),
        (front("description: d\nmetadata: {x: !!bool maybe}"), "a value that cannot be read"),
        (front("description: d\nmetadata: {x: !!timestamp soon}"), "a value that cannot be read"),
        (front("description: d\nmetadata: {x: 1" + ":59" * 20_000 + "}"), "a value that cannot be read"),
        (front("description: d\nmetadata: {x: 0b" + "1" * 60_000 + "}"), "a value that cannot be read"),
        (front("description: d\nmetadata: {locale: ../../x}"), "line 3: `locale`"),
    ],
)
def test_a_hostile_file_is_an_error_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_skill(text, file="skills/x/SKILL.md", folder_name="x")
    assert caught.value.message.startswith("skills/x/SKILL.md: line ") and problem in caught.value.message


@pytest.mark.parametrize("name", ["a/b", "../x", "", "-x", "x y", "x" * 129, "名前"])
def test_a_name_that_is_no_name_is_an_error(name: str) -> None:
    with pytest.raises(Invalid, match="line 2: `name`"):
        parse_skill(front(f"name: '{name}'\ndescription: d"), file="f")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "agents").mkdir()
    return Workspace(tmp_path)


def _write(workspace: Workspace, name: str, text: str | bytes) -> None:
    path = workspace.skills / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def test_broken_skills_leave_the_others_alone(workspace: Workspace) -> None:
    _write(workspace, "good/SKILL.md", GOOD)
    _write(workspace, "flat.md", GOOD)
    _write(workspace, "README.md", "not a skill")
    _write(workspace, "huge/SKILL.md", b"---\n" + b"x" * 10_000_000)
    _write(workspace, "binary/SKILL.md", b"\xff\xfe\x00")
    _write(workspace, "nul/SKILL.md", "---\ndescription: d\n---\n\x00")
    _write(workspace, "bad name/SKILL.md", GOOD)
    _write(workspace, "many/SKILL.md", GOOD)
    for number in range(101):
        _write(workspace, f"many/references/{number}.md", "x")
    (workspace.skills / "empty").mkdir()
    (workspace.skills / "linked").mkdir()
    (workspace.skills / "linked" / "SKILL.md").symlink_to("/etc/passwd")
    skills = WorkspaceSkills(workspace)
    assert [skill.name for skill in skills.of_agent("bot")] == ["flat", "good"]
    broken = {each.name: each.message for each in skills.broken()}
    assert set(broken) == {"huge", "binary", "nul", "bad name", "many", "empty", "linked"}
    assert all(": line 1: " in message or ": line 4: " in message for message in broken.values()), broken
    assert "is a link out of the folder" in broken["linked"]


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "references/../../secret", "SKILL.md", ".git/config", "link"]
)
def test_only_files_of_the_skill_can_be_read(workspace: Workspace, path: str) -> None:
    _write(workspace, "good/SKILL.md", GOOD)
    (workspace.path / "secret").write_text("x")
    (workspace.skills / "good" / "link").symlink_to(workspace.path / "secret")
    with pytest.raises((Invalid, NotFound)):
        read_skill_file(DiskFolder(workspace.skills), "good", path)


def test_a_fixed_skill_is_used_again(workspace: Workspace) -> None:
    seconds = count()
    skills = WorkspaceSkills(workspace, monotonic=lambda: float(next(seconds)))
    _write(workspace, "good/SKILL.md", "broken")
    assert skills.of_agent("bot") == ()
    _write(workspace, "good/SKILL.md", GOOD)
    first = skills.of_agent("bot")
    assert [skill.source for skill in first] == [SkillSource.WORKSPACE]
    assert skills.of_agent("bot") is first
    _write(workspace, "good/SKILL.md", "broken again, so the last valid version stays")
    assert skills.of_agent("bot") == first


def test_a_malformed_value_never_counts_as_unrestricted() -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        skill_restrictions({"skills": {"active": "all"}})
