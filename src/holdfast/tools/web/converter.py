"""HTML to Markdown by `html-to-markdown`; run as a program, it converts standard input to standard output.

The library limits the nesting depth, drops scripts and hidden elements, and takes a tenth of the time of
`markdownify`, which crashes on hostile nesting.
"""

import sys
from typing import Final

MAX_ELEMENT_DEPTH: Final = 512
"""Levels of nested elements; deeper ones are left out."""
MAX_MEMORY_BYTES: Final = 1024 * 1024 * 1024
"""Memory of the program."""


def html_to_markdown_text(page: str, base: str) -> str:
    """Return a page as Markdown, with links made absolute by `base`, or raise `ValueError`."""
    import html_to_markdown  # an extra, and slow to import

    options = html_to_markdown.ConversionOptions(
        base_url=base, extract_metadata=False, inline_data_media="alt_text_only", max_depth=MAX_ELEMENT_DEPTH
    )
    try:
        return (html_to_markdown.convert(page, options).content or "").strip()
    except html_to_markdown.ConversionError as exc:
        raise ValueError(str(exc)) from exc


def main() -> None:
    """Read a URL, a newline and a page, and write the page as Markdown."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    base, _, page = sys.stdin.buffer.read().decode().partition("\n")
    sys.stdout.buffer.write(html_to_markdown_text(page, base).encode())


if __name__ == "__main__":
    main()
