"""A page that is made to do harm is read, or refused, and nothing breaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.web_url import parse_web_url
from holdfast.sandbox.processes import SupervisedProcesses
from holdfast.tools.web.client import WebResponse
from holdfast.tools.web.fetch import MAX_INLINE_CHARS, MarkdownConverter, decode_page, extract_text

HERE = parse_web_url("http://example.com/")
DEEP = 20_000


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * DEEP + "x",
        "<b><i>" * DEEP + "x",
        "<ul><li>" * DEEP + "x",
        "<table><tr><td>" * DEEP + "x",
        "<blockquote>" * DEEP + "x",
        "<a " + " ".join(f"a{number}=1" for number in range(DEEP)) + ">x</a>",
        "<" * DEEP,
        "<!--" * DEEP,
        "&" * DEEP,
        "<p>x</p>" * DEEP,
        "<table><tr><td colspan=99999999 rowspan=99999999>x</table>",
        "<title>" + "x" * DEEP,
        "<meta charset=" * DEEP,
        "<svg><style><!--</style><img src=x onerror=alert(1)>",
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=lambda page: page[:12],
)
async def test_a_page_that_is_made_to_break_its_reader_does_not(pages: MarkdownConverter, page: str) -> None:
    assert isinstance(await pages.markdown(page, base="http://example.com/"), str)


async def test_a_page_that_takes_too_long_is_left_and_its_process_with_it(
    pages: MarkdownConverter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.tools.web.fetch.CONVERT_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(Invalid, match="cannot be converted to Markdown, it takes too long: read it `raw`"):
        await pages.markdown("<meta charset=" * 350_000, base="http://example.com/")


async def test_a_large_page_comes_to_the_same_as_a_small_one(pages: MarkdownConverter) -> None:
    page = '<p>tea <a href="x">é</a></p>'
    small = await pages.markdown(page, base="http://example.com/")
    large = await pages.markdown(page * 1000, base="http://example.com/")
    assert (small, len(page * 1000) > MAX_INLINE_CHARS) == ("tea [é](http://example.com/x)", True)
    assert large == "\n\n".join([small] * 1000)


@given(st.binary(max_size=300), st.none() | st.text(max_size=30))
async def test_whatever_is_sent_is_text_or_refused(body: bytes, header: str | None) -> None:
    headers = {} if header is None else {"content-type": header}
    try:
        reading = await extract_text(
            HERE, WebResponse(status=200, headers=headers, body=body), MarkdownConverter(SupervisedProcesses())
        )
    except Invalid:
        return
    assert "\x00" not in reading.text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=100))
def test_what_is_written_in_utf_8_is_read_as_it_was(text: str) -> None:
    assert decode_page(text.encode(), charset="utf-8") == text.removeprefix("\ufeff")
