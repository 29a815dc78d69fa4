"""Hostile pages are read or refused, and nothing breaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.web_url import parse_web_url
from holdfast.sandbox.processes import SupervisedProcesses
from holdfast.tools.web.client import WebResponse
from holdfast.tools.web.fetch import MAX_INLINE_CHARS, MarkdownConverter, decode_page, extract_text

URL = parse_web_url("http://example.com/")
REPETITIONS = 20_000


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * REPETITIONS + "x",
        "<b><i>" * REPETITIONS + "x",
        "<ul><li>" * REPETITIONS + "x",
        "<table><tr><td>" * REPETITIONS + "x",
        "<blockquote>" * REPETITIONS + "x",
        "<a " + " ".join(f"a{number}=1" for number in range(REPETITIONS)) + ">x</a>",
        "<" * REPETITIONS,
        "<!--" * REPETITIONS,
        "&" * REPETITIONS,
        "<p>x</p>" * REPETITIONS,
        "<table><tr><td colspan=99999999 rowspan=99999999>x</table>",
        "<title>" + "x" * REPETITIONS,
        "<meta charset=" * REPETITIONS,
        "<svg><style><!--</style><img src=x onerror=alert(1)>",
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=lambda page: page[:12],
)
async def test_a_hostile_page_is_converted(pages: MarkdownConverter, page: str) -> None:
    assert isinstance(await pages.markdown(page, base="http://example.com/"), str)


async def test_a_page_that_takes_too_long_is_refused(pages: MarkdownConverter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.tools.web.fetch.CONVERT_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(Invalid, match="cannot be converted to Markdown, it takes too long: read it `raw`"):
        await pages.markdown("<meta charset=" * 350_000, base="http://example.com/")


async def test_a_large_page_is_converted_like_a_small_one(pages: MarkdownConverter) -> None:
    page = '<p>tea <a href="x">é</a></p>'
    small = await pages.markdown(page, base="http://example.com/")
    large = await pages.markdown(page * 1000, base="http://example.com/")
    assert (small, len(page * 1000) > MAX_INLINE_CHARS) == ("tea [é](http://example.com/x)", True)
    assert large == "\n\n".join([small] * 1000)


@given(st.binary(max_size=300), st.none() | st.text(max_size=30))
async def test_any_response_is_text_or_refused(body: bytes, header: str | None) -> None:
    headers = {} if header is None else {"content-type": header}
    try:
        page_text = await extract_text(
            URL, WebResponse(status=200, headers=headers, body=body), MarkdownConverter(SupervisedProcesses())
        )
    except Invalid:
        return
    assert "\x00" not in page_text.text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=100))
def test_utf_8_is_decoded_unchanged(text: str) -> None:
    assert decode_page(text.encode(), charset="utf-8") == text.removeprefix("\ufeff")
