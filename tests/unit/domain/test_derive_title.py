"""The title of a thread is derived from its first text."""

import pytest

from holdfast.domain.thread import derive_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Read it.", "Read it."),
        ("\n  Read it.\nAll of it.", "Read it."),
        ("\0 Read\0 it.", "Read it."),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        (" \n\0", None),
        ("", None),
    ],
)
def test_a_title_is_the_first_line_cut_and_without_nul(text: str, title: str | None) -> None:
    assert derive_title(text) == title
