"""A page as Markdown, by `html-to-markdown`; as a program it reads a page and writes that.

The library bounds how deep it goes, leaves out scripts and what a browser would not show, and takes a tenth of the time
that `markdownify` needs, which hostile nesting brings down.
"""

import sys
from typing import Final

MAX_DEPTH: Final = 512
"""Elements within each other; what is deeper is left out."""
MEMORY: Final = 1024 * 1024 * 1024
"""Bytes that the program may use."""


def markdown(page: str, base: str) -> str:
    """Return a page as Markdown, with whole addresses for those that are relative to `base`, or raise `ValueError`."""
    import html_to_markdown  # only whoever reads a page needs it

    options = html_to_markdown.ConversionOptions(
        base_url=base, extract_metadata=False, inline_data_media="alt_text_only", max_depth=MAX_DEPTH
    )
    try:
        return (html_to_markdown.convert(page, options).content or "").strip()
    except html_to_markdown.ConversionError as exc:
        raise ValueError(str(exc)) from exc


def main() -> None:
    """Read an address and a page, with an end of line between them, and write the page as Markdown."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    base, _, page = sys.stdin.buffer.read().decode().partition("\n")
    sys.stdout.buffer.write(markdown(page, base).encode())


if __name__ == "__main__":
    main()
