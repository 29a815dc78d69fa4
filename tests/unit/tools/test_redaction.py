"""Secrets are redacted in texts, however they are split into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.events.custom import FileAction, FileChanged
from holdfast.tools.redaction import REDACTED, RedactedStream, Redaction, secret_values, with_redaction
from holdfast.tools.tool import ToolResult
from tests.support.calls import Recorder, a_call

SECRET = "correct horse battery"
REDACTION = Redaction([SECRET])
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"
KEYS = [
    "sk-" + "a1B2" * 8,
    "sk-ant-api03-" + "x_-9" * 10,
    "sk-proj-" + "Zz09" * 12,
    *(f"{prefix}{'a' * 36}" for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    "github_pat_" + "a1" * 20,
    "glpat-" + "a" * 20,
    "xoxb-123456789012-abcdef",
    "AIza" + "a" * 35,
    "AKIA" + "A1" * 8,
    "ASIA" + "A1" * 8,
    "sk_live_" + "a" * 24,
    "rk_live_" + "a" * 24,
    "hf_" + "a" * 34,
    "hf_" + "0f" * 16 + "_" + "aB-_" * 10 + "xyz",
    "npm_" + "a" * 36,
    "pypi-" + "a1" * 30,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
]


@pytest.mark.parametrize("key", [*KEYS, SECRET, PRIVATE])
def test_a_secret_is_redacted(key: str) -> None:
    assert REDACTION.text(f"it is ({key}), they say") == f"it is ({REDACTED}), they say"


@pytest.mark.parametrize(
    "text", ["sk-learn is a package", "a risk-averse-person-with-a-long-name", "AKIA", "task_list", "eyJ.eyJ.x"]
)
def test_similar_text_is_not_redacted(text: str) -> None:
    assert REDACTION.text(text) == text


@pytest.mark.parametrize("first", ["AIza" + "a" * 34 + "_", "AIza" + "a" * 34 + "-"])
def test_two_keys_without_a_space_between_them_are_both_redacted(first: str) -> None:
    assert REDACTION.text(f"{first}{KEYS[0]} {first}{first}") == f"{REDACTED}{REDACTED} {REDACTED}{REDACTED}"


@pytest.mark.parametrize(
    "text",
    [
        "-eyJaaaa" * 100_000,
        "-eyJ" + "a" * 400_000 + "." + "-eyJaaaaaaaaaa." * 30_000,
        "-----BEGIN " * 80_000 + "PRIVATE KEY----",
        "-----BEGIN " + "PRIVATE KEY " * 60_000,
        "sk-" * 250_000,
    ],
)
def test_a_text_that_nearly_holds_keys_takes_linear_time(text: str) -> None:
    REDACTION.text(text)
    stream = RedactedStream(REDACTION)
    for start in range(0, len(text), 1 << 16):
        stream.feed(text[start : start + (1 << 16)])
    stream.end()


def test_text_with_an_unpaired_surrogate_is_redacted() -> None:
    assert REDACTION.text("\ud800 nothing") == "\ufffd nothing"
    assert REDACTION.text(f"\ud800 {KEYS[0]}") == f"\ufffd {REDACTED}"


def test_a_short_secret_is_not_redacted() -> None:
    assert Redaction(["abc"]).text("abc") == "abc"


def test_the_longer_of_two_secrets_is_redacted_whole() -> None:
    assert Redaction(["password", "password-of-ada"]).text("password-of-ada") == REDACTED


def test_a_secret_of_several_lines_is_redacted_line_by_line() -> None:
    assert Redaction(["first line\nsecond line"]).text("second line") == REDACTED


def test_names_and_values_of_json_are_redacted() -> None:
    text = REDACTION.json({SECRET: [SECRET, 1, None, {"a": (SECRET,)}]})
    assert text == {REDACTED: [REDACTED, 1, None, {"a": [REDACTED]}]}


@given(st.lists(st.sampled_from([*KEYS, SECRET, PRIVATE, "word", "\n", " ", "é"]), max_size=12), st.data())
def test_a_stream_gives_the_same_text_as_the_whole(parts: list[str], data: st.DataObject) -> None:
    text = "\n".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    stream = RedactedStream(REDACTION)
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join([*map(stream.feed, pieces), stream.end()]) == REDACTION.text(text)


@given(st.integers(0, 12_000), st.integers(50, 2_000), st.sampled_from([SECRET, *KEYS]))
def test_a_secret_in_an_unfinished_line_is_redacted(at: int, size: int, secret: str) -> None:
    text = "." * at + secret + "." * (12_000 - at)
    stream = RedactedStream(REDACTION)
    pieces = [stream.feed(text[start : start + size]) for start in range(0, len(text), size)]
    assert "".join([*pieces, stream.end()]) == REDACTION.text(text)
    assert any(pieces)


@pytest.mark.parametrize("prefix", ["", "x ", "x " * 3000])
def test_a_key_without_an_end_is_redacted_and_not_held_back(prefix: str) -> None:
    stream = RedactedStream(REDACTION)
    shown = stream.feed(f"{prefix}sk-")
    for _ in range(100):
        shown += stream.feed("a" * 1024)
        shown += stream.feed("-b_" * 100)
    assert shown == f"{prefix}{REDACTED}"
    shown += stream.feed("a") + stream.feed("ab c\n")
    assert shown + stream.end() == f"{prefix}{REDACTED} c\n"


def test_complete_lines_are_returned_at_once() -> None:
    stream = RedactedStream(REDACTION)
    assert stream.feed("one\ntw") == "one\n"
    assert stream.feed("o\rthree") == "two\r"
    assert stream.end() == "three"


def test_variables_are_secret_by_their_names() -> None:
    environment = {
        "OPENAI_API_KEY": "1",
        "GITHUB_TOKEN": "2",
        "db_password": "3",
        "AWS_SECRET_ACCESS_KEY": "4",
        "MINE": "5",
        "TOKENIZERS_PARALLELISM": "6",
        "EMPTY_TOKEN": "",
        "PATH": "7",
    }
    assert sorted(secret_values(environment, named=["MINE", "GONE"])) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("padding", ["", " " * 100_000])
async def test_the_result_of_a_tool_is_redacted(padding: str) -> None:
    outcome = ToolResult(
        content={"said": SECRET + padding},
        artifacts=[NewArtifact(type=ArtifactType.DOC, title=SECRET, content=SECRET, media_type="text/plain")],
        events=[FileChanged(path="a", action=FileAction.CREATED, size=1, digest_after="0", diff=f"+{SECRET}")],
    )
    found = await with_redaction(Recorder(outcome), REDACTION).run(a_call(), {})
    assert found.content == {"said": REDACTED + padding}
    assert SECRET not in repr(found)
