"""The Markdown converter for all tests here."""

from collections.abc import AsyncIterator

import pytest

from holdfast.sandbox.processes import open_processes
from holdfast.tools.web.fetch import MarkdownConverter


@pytest.fixture(scope="module")
async def pages() -> AsyncIterator[MarkdownConverter]:
    async with open_processes() as processes:
        yield MarkdownConverter(processes)
