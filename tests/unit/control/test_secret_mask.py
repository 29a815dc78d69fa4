"""What is secret in settings is hidden, and comes back when it is sent as it is shown."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.settings import SecretMask
from holdfast.domain.content import Json
from holdfast.tools.redaction import REDACTED, Redaction

HIDING: Final = SecretMask(Redaction(["correct horse"]))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({"env": {"TOKEN": "abc"}}, {"env": {"TOKEN": REDACTED}}),
        ({"env": {"TOKEN": "${TOKEN}"}}, {"env": {"TOKEN": "${TOKEN}"}}),
        ({"env": {"TOKEN": "Bearer ${TOKEN}"}}, {"env": {"TOKEN": REDACTED}}),
        ({"headers": {"A": ["abc", 1]}}, {"headers": {"A": [REDACTED, 1]}}),
        ({"base_url": "https://me:pw@host/v1"}, {"base_url": f"https://{REDACTED}@host/v1"}),
        ({"url": "https://host/search?key=abc#top"}, {"url": f"https://host/search?{REDACTED}#top"}),
        ({"permissions": ["bash(ls ?)"]}, {"permissions": ["bash(ls ?)"]}),
        ({"base_url": "https://host/a@b"}, {"base_url": "https://host/a@b"}),
        ({"args": ["--say", "correct horse"]}, {"args": ["--say", REDACTED]}),
        ({"args": [f"sk-{'a' * 30}"]}, {"args": [REDACTED]}),
        ({"workers": 3, "locale": None, "deep": True}, {"workers": 3, "locale": None, "deep": True}),
    ],
)
def test_secrets_are_hidden(written: Any, shown: Any) -> None:
    assert HIDING.mask(written) == shown
    assert HIDING.unmask(shown, written) == written


def test_what_is_changed_is_taken_as_it_is_sent() -> None:
    written: Json = {"env": {"A": "abc", "B": "def"}}
    assert HIDING.unmask({"env": {"A": REDACTED, "B": "new", "C": "more"}}, written) == {
        "env": {"A": "abc", "B": "new", "C": "more"}
    }


_JSON: Final = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["env", "headers", "a", "b"]), inner),
)


@given(_JSON)
def test_whatever_is_written_is_restored_from_what_is_shown(written: Json) -> None:
    assert HIDING.unmask(HIDING.mask(written), written) == written
