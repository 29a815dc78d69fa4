import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid, ScriptError
from holdfast.models.scripted import DEFAULT_CONTEXT_WINDOW_TOKENS, Script, ScriptFile, ScriptTurn, parse_script


def test_a_turn_is_empty_by_default() -> None:
    assert parse_script('{"turns": [{}]}', file="a.json") == Script(turns=[ScriptTurn()])
    assert parse_script('{"turns": [{}]}', file="a.json").after_last == "fail"
    assert parse_script('{"turns": [{}]}', file="a.json").context_window == DEFAULT_CONTEXT_WINDOW_TOKENS


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"turns": [{"sya": "hello"}]}', "turns[0].sya"),
        ('{"turns": [{}, {"say": 3}]}', "turns[1].say"),
        ('{"turns": [{"chunks": 0}]}', "turns[0].chunks"),
        ('{"turns": [{"chunks": "2"}]}', "turns[0].chunks"),
        ('{"turns": [{"delay_ms": -1}]}', "turns[0].delay_ms"),
        ('{"turns": [{"think": null}]}', "turns[0].think"),
        ('{"turns": [{"call": {}}]}', "turns[0].call"),
        ('{"turns": [{"call": [{"arguments": {}}]}]}', "turns[0].call[0].name"),
        ('{"turns": [{"call": [{"name": ""}]}]}', "turns[0].call[0].name"),
        ('{"turns": [{"call": [{"name": "a", "arguments": []}]}]}', "turns[0].call[0].arguments"),
        ('{"turns": [{"call": [{"name": "a", "args": {}}]}]}', "turns[0].call[0].args"),
        ('{"turns": [{"usage": {"input_tokens": -1}}]}', "turns[0].usage.input_tokens"),
        ('{"turns": [{"usage": {"output_tokens": 1000000001}}]}', "turns[0].usage.output_tokens"),
        ('{"turns": [{"usage": {"tokens": 1}}]}', "turns[0].usage.tokens"),
        ('{"turns": [{"error": {"message": "no"}}]}', "turns[0].error.code"),
        ('{"turns": [{"stall": 1}]}', "turns[0].stall"),
        ('{"turns": [{"stall": true, "error": {"code": "A"}}]}', "turns[0]"),
        ('{"turns": [{}], "after_last": "loop"}', "after_last"),
        ('{"turns": [{}], "context_window": 0}', "context_window"),
        ('{"turns": [{}], "name": "x"}', "name"),
        ('{"turns": []}', "turns"),
        ("{}", "turns"),
        ("[]", "$"),
    ],
)
def test_an_unknown_key_or_a_wrong_type_is_an_error_that_names_file_and_key(text: str, key: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(text, file="agents/a/script.json")
    assert "`agents/a/script.json`" in caught.value.message
    assert f"`{key}`" in caught.value.message
    assert caught.value.details == {"file": "agents/a/script.json", "key": key}


BOTTOMLESS = b'{"turns": [{"call": [{"name": "a", "arguments": {"a": ' + b"[" * 100_000


@pytest.mark.parametrize("text", [b"", b"{", b"hello", b"\xff", b'{"turns": [{"say": "\xff"}]}', BOTTOMLESS])
def test_invalid_json_is_an_error_that_names_the_file(text: bytes) -> None:
    with pytest.raises(ScriptError, match=r"script `a\.json` is not JSON"):
        parse_script(text, file="a.json")


@given(st.binary(max_size=200))
def test_any_bytes_give_a_script_or_an_error(text: bytes) -> None:
    try:
        assert isinstance(parse_script(text, file="a.json"), Script)
    except Invalid as error:
        assert "`a.json`" in error.message


def test_a_file_is_parsed_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"turns": [{"say": "one"}]}')
    file = ScriptFile(path)
    first = file.read()
    assert file.read() is first
    path.write_text('{"turns": [{"say": "two"}]}')
    os.utime(path, ns=(1, 1))  # a different modification time
    assert file.read().turns[0].say == "two"


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"nowhere\.json` cannot be read: No such file"):
        ScriptFile(tmp_path / "nowhere.json").read()
    with pytest.raises(ScriptError, match="cannot be read: it is not a file"):
        ScriptFile(tmp_path).read()


def test_a_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ScriptError, match="cannot be read: it is not a file"):
        ScriptFile(tmp_path / "pipe").read()


@pytest.mark.parametrize("name", ["a\x00b", "\ud800", "x" * 5_000])
def test_an_impossible_file_name_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScriptError, match="cannot be read"):
        ScriptFile(tmp_path / name).read()
