import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.working_path import WorkingPath
from holdfast.tools.files.text import decode_file

A = WorkingPath("a")
TEXT = st.text(st.sampled_from("aä\n\r\t ﻿𝄞"))


@pytest.mark.parametrize(
    ("content", "text", "kind"),
    [
        (b"", "", ""),
        ("ä\n".encode(), "ä\n", ""),
        (b"\xef\xbb\xbfa\n", "a\n", "UTF-8 with a mark"),
        ("\ufeffä\n".encode("utf-16-le"), "ä\n", "UTF-16-LE with a mark"),
        ("\ufeffä\r\n".encode("utf-16-be"), "ä\n", "UTF-16-BE with a mark with CRLF line ends"),
        (b"a\r\nb\r\n", "a\nb\n", "with CRLF line ends"),
        (b"a\r\nb\n", "a\r\nb\n", ""),
        (b"a\r\r\nb", "a\r\r\nb", ""),
        (b"a\rb", "a\rb", ""),
    ],
)
def test_the_encoding_of_a_file_is_recognized(content: bytes, text: str, kind: str) -> None:
    found = decode_file(content, A)
    assert (found.text, found.encoding_note) == (text, kind)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x89PNG\x00\xff", "`a` is binary"),
        (b"a\x00b", "`a` is binary"),
        ("\ufeffa\x00".encode("utf-16-le"), "`a` is binary"),
        ("grüße".encode("latin-1"), r"byte 3 is invalid\), and its encoding is not guessed"),
        (b"\xef\xbb\xbf\xff", "byte 4 is invalid"),
        (b"\xff\xfea", "byte 3 is invalid"),
    ],
)
def test_an_unknown_encoding_is_not_guessed(content: bytes, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        decode_file(content, A)


@given(
    TEXT,
    st.sampled_from(
        [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")]
    ),
)
def test_encoding_a_decoded_file_gives_its_bytes(text: str, encoding: tuple[str, bytes]) -> None:
    content = encoding[1] + text.encode(encoding[0])
    assert decode_file(content, A).encoded() == content


@given(TEXT, TEXT)
def test_an_encoded_passage_is_a_part_of_the_encoded_file(before: str, after: str) -> None:
    found = decode_file(f"{before}\r\n{after}".encode(), A)
    for line in found.text.split("\n"):
        assert found.encode_piece(line) in found.encoded()
