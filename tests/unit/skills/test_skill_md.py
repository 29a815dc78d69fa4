"""`SKILL.md`: what is accepted, what is a warning, and what is an error with its line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.domain.errors import Invalid
from holdfast.domain.skill import ArtifactProduct, ExecutionContract, FileProduct, SkillContent
from holdfast.skills.skill_md import parse_skill, render_skill, translation_locale

FULL = """\
---
name: release-notes
description: Write release notes.
license: MIT
compatibility: Needs git.
allowed-tools: Read Bash(git log:*), Grep
metadata:
  author: ann
  released: 2026-01-31
  triggers: release notes, 変更履歴、リリースノート
  activation_tags: [release]
  category: software
  priority: 7
  locale: en
  execution_contract:
    preferred_tools: [bash]
    output_modes: [text, structured, repo]
    must_produce: [{kind: artifact, type: doc}, {kind: file, path: notes/}]
---

Read the changes.
"""


def test_every_key_is_read() -> None:
    parsed = parse_skill(FULL, file="f", folder_name="release-notes")
    content = parsed.content
    assert parsed.warnings == []
    assert (content.name, content.license, content.compatibility) == ("release-notes", "MIT", "Needs git.")
    assert content.allowed_tools == ["Read", "Bash(git log:*)", "Grep"]
    assert content.triggers == ["release notes", "変更履歴", "リリースノート"]
    assert (content.tags, content.category, content.priority, content.locale) == (["release"], "software", 7, "en")
    assert content.contract.output_modes == ["chat", "repo"]
    assert content.contract.must_produce == [ArtifactProduct(type="doc"), FileProduct(path="notes/")]  # type: ignore[arg-type]
    assert content.metadata == {"author": "ann", "released": "2026-01-31"}
    assert content.instructions == "Read the changes."


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("---\nname: x\ndescription: Use it when: always\n---\n", "a value with a colon is not in quotes"),
        ("---\nname: other\ndescription: d\n---\n", "its name `other` is not that of its folder, `x`, which is used"),
        ("---\ndescription: d\n---\n", "it has no `name`"),
        ("---\nname: x\ndescription: d\nmodel: gpt\n---\n", "the key `model` is not known and is ignored"),
    ],
)
def test_what_the_format_is_lenient_about_is_a_warning(text: str, warning: str) -> None:
    parsed = parse_skill(text, file="f", folder_name="x")
    assert parsed.warnings == [warning] and parsed.content.name == "x"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no frontmatter", "line 1: begins without a frontmatter"),
        ("---\nname: x\n", "line 1: the frontmatter has no end"),
        ("---\nname: x\n---\n", "line 1: `description`: is missing or empty"),
        ("---\nname: x\ndescription: ''\n---\n", "line 3: `description`: is missing or empty"),
        ("---\nname: [x]\ndescription: d\n---\n", "line 2: `name`: must be a text"),
        ("---\nname: x\ndescription: d\nmetadata: text\n---\n", "line 4: `metadata`: must be a mapping"),
        (
            "---\nname: x\ndescription: d\nmetadata:\n  priority: high\n---\n",
            "line 5: `priority`: must be a whole number",
        ),
        ("---\nname: x\ndescription: d\nmetadata:\n  triggers: [[a]]\n---\n", "line 5: `triggers`: must be a list"),
        ("---\n- a\n---\n", "line 2: the frontmatter must be a mapping"),
        ("---\nname: 'x\n---\n", "the frontmatter cannot be read"),
        ("---\nname: x\nname: y\ndescription: d\n---\n", "line 3: `name` is there twice"),
        (
            "---\nname: x\ndescription: d\nmetadata:\n  execution_contract: {must_produce: [{kind: wish}]}\n---\n",
            "line 5: `execution_contract`: must_produce[0].kind: expected one of",
        ),
        (
            "---\nname: x\ndescription: d\nmetadata:\n  execution_contract: {must_make: []}\n---\n",
            "line 5: `execution_contract`",
        ),
    ],
)
def test_anything_else_is_an_error_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_skill(text, file="skills/x/SKILL.md", folder_name="x")
    assert caught.value.message.startswith("skills/x/SKILL.md: ") and problem in caught.value.message


@pytest.mark.parametrize(
    ("name", "locale"),
    [("SKILL.ja.md", "ja"), ("SKILL.md", None), ("SKILL.PT.md", "pt"), ("x.ja.md", None), ("SKILL.ja.txt", None)],
)
def test_a_translation_is_known_by_its_file_name(name: str, locale: str | None) -> None:
    assert translation_locale(name) == locale


_text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="\x7f\x85"),
    min_size=1,
    max_size=40,
).filter(lambda text: text.strip() != "" and text == text.strip())
_words = st.text("abcdefg ", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(
    fields=st.fixed_dictionaries(
        {"description": _text, "instructions": _text, "triggers": st.lists(_words, max_size=3, unique=True)},
        optional={
            "tags": st.lists(_words, max_size=3, unique=True),
            "priority": st.integers(-9, 9),
            "license": _text,
            "allowed_tools": st.lists(st.sampled_from(["bash", "read_file", "bash(git *)"]), max_size=2, unique=True),
            "contract": st.builds(
                ExecutionContract,
                must_produce=st.lists(st.builds(FileProduct, path=_words.map(lambda text: f"a{text}")), max_size=2),
            ),
            "metadata": st.dictionaries(_words.filter(lambda key: key != "locale"), _text, max_size=2),
        },
    )
)
def test_a_rendered_skill_is_read_as_it_was(fields: dict[str, Any]) -> None:
    content = SkillContent(name="it", **fields)
    parsed = parse_skill(render_skill(content), file="f").content
    lines = "\n".join(content.instructions.splitlines()).strip()
    assert parsed == replace(content, instructions=lines)
