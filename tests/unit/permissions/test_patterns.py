"""Path and command patterns of rules."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.permissions.command_pattern import command_pattern
from holdfast.tools.permissions.patterns import RuleMatch, normalize_path, path_pattern

YES, MAYBE, NO = RuleMatch.YES, RuleMatch.MAYBE, RuleMatch.NO

parts = st.lists(st.sampled_from(["a", "b", "src", ".", "..", "x.env"]), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        ("*.env", "prod.env", YES),
        ("*.env", "deep/down/.env", YES),
        ("*.env", "/etc/x.env", YES),
        ("*.env", "x.envy", NO),
        ("secrets", "a/secrets/b/c", YES),
        ("secrets/", "secrets/b", YES),
        ("src/**", "src/a/b.py", YES),
        ("src/**", "src", YES),
        ("src/**", "lib/src/a", NO),
        ("src/**", "srcs/a", NO),
        ("src/*.py", "src/a.py", YES),
        ("src/*.py", "src/a/b.py", NO),
        ("src/**/x", "src/x", YES),
        ("src/**/x", "src/a/b/x", YES),
        ("a?c", "abc", YES),
        ("[ab].py", "b.py", YES),
        ("[!ab].py", "b.py", NO),
        ("/etc/**", "/etc/passwd", YES),
        ("/etc/**", "etc/passwd", NO),
        ("/etc/**", "../etc/passwd", MAYBE),
        ("src/**", "/srv/me/src/a", MAYBE),
        ("src/**", "../x/src/a", MAYBE),
        ("src/**", None, MAYBE),
        ("**", "anything/at/all", YES),
        (".", "x", NO),
    ],
)
def test_a_path_pattern_matches_as_documented(pattern: str, path: str | None, match: RuleMatch) -> None:
    assert path_pattern(pattern).match(path) is match


def test_after_cd_a_relative_path_only_possibly_matches() -> None:
    assert path_pattern("src/**").match("src/a", cwd_changed=True) is MAYBE
    assert path_pattern("src/**").match("a", cwd_changed=True) is MAYBE
    assert path_pattern("/etc/**").match("passwd", cwd_changed=True) is MAYBE
    assert path_pattern("*.env").match("x.env", cwd_changed=True) is YES


@given(parts=parts)
def test_paths_are_normalized(parts: list[str]) -> None:
    path = "/".join(parts)
    assert normalize_path(path) == posixpath.normpath(path) == normalize_path(normalize_path(path))
    detour = "/".join(f"./q/../{part}" for part in parts)
    assert normalize_path(detour) == normalize_path(path)


@pytest.mark.parametrize(
    ("pattern", "command", "allows", "binds"),
    [
        ("git status", "git status", True, YES),
        ("git status", "git status x", False, NO),
        ("git *", "git", True, YES),
        ("git *", "git push origin", True, YES),
        ("git push *", "git pull", False, NO),
        ("git push *", "git -C . push", False, MAYBE),
        ("git push *", "git commit push", False, NO),
        ("git push *", "/usr/bin/git push x", False, YES),
        ("npm run test:*", "npm run test:unit", True, YES),
        ("npm run test:*", "npm run testing", False, NO),
        ("rm -rf *", "rm -rf x", True, YES),
        ("rm -rf *", "rm -fr x", False, YES),
        ("rm -rf *", "rm x -r -f", False, YES),
        ("rm -rf *", "rm -r x", False, NO),
        ("rm -rf *", "rm --recursive --force x", False, MAYBE),
        ("echo 'a b'", "echo a_b", False, NO),
    ],
)
def test_a_command_pattern_matches_as_documented(pattern: str, command: str, allows: bool, binds: RuleMatch) -> None:
    words = tuple(command.split())
    assert (command_pattern(pattern).allows(words), command_pattern(pattern).binds(words)) == (allows, binds)


def test_an_unknown_word_is_allowed_only_by_a_wildcard() -> None:
    assert command_pattern("git *").allows(("git", None))
    assert not command_pattern("git push").allows(("git", None))
    assert command_pattern("git push *").binds(("git", None)) is MAYBE
    assert command_pattern("git push *").binds((None, "push")) is MAYBE


words = st.lists(st.sampled_from(["git", "push", "-f", "--all", "-x", "origin", "a:b"]), min_size=1, max_size=5)


@given(words=words, open_=st.booleans())
def test_a_pattern_binds_what_it_allows(words: list[str], open_: bool) -> None:
    pattern = command_pattern(" ".join([*words, *(["*"] if open_ else [])]))
    command = (*words, *(["more"] if open_ else []))
    assert pattern.allows(command)
    assert pattern.binds(command) is YES
    assert pattern.binds((f"/bin/{command[0]}", *command[1:])) is YES
