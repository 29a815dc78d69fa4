"""Secrets in settings are masked, and restored when the masked settings are sent back."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.settings import SecretMask
from holdfast.domain.content import Json
from holdfast.tools.redaction import REDACTED, Redaction

MASK: Final = SecretMask(Redaction(["correct horse"]))


@pytest.mark.parametrize(
    ("settings", "masked"),
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
def test_secrets_are_masked_and_restored(settings: Any, masked: Any) -> None:
    assert MASK.mask(settings) == masked
    assert MASK.unmask(masked, settings) == settings


def test_changed_values_are_kept_as_sent() -> None:
    settings: Json = {"env": {"A": "abc", "B": "def"}}
    assert MASK.unmask({"env": {"A": REDACTED, "B": "new", "C": "more"}}, settings) == {
        "env": {"A": "abc", "B": "new", "C": "more"}
    }


_JSON: Final = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["env", "headers", "a", "b"]), inner),
)


@given(_JSON)
def test_any_settings_are_restored_from_their_masked_form(settings: Json) -> None:
    assert MASK.unmask(MASK.mask(settings), settings) == settings
