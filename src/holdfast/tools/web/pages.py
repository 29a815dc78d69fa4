"""Pages as Markdown. A large one is turned into it by a process of its own, which can be killed.

The library that does it keeps the interpreter to itself meanwhile, and pages can be made so that it takes minutes.
"""

import sys
from pathlib import Path
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.ports.sandbox import Command, Processes
from holdfast.tools.files.threads import in_thread
from holdfast.tools.web import converter

SMALL: Final = 8 * 1024
"""Characters that take less time, whatever they are, than to start a process."""
SECONDS: Final = 20.0
MAX_MARKDOWN: Final = 32 * 1024 * 1024
"""Bytes that come of a page."""


class Pages:
    """Turns pages into Markdown."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def markdown(self, page: str, *, base: str) -> str:
        """Return a page as Markdown, with whole addresses; raise `Invalid` if it cannot be read."""
        if len(page) <= SMALL:
            return await self._here(page, base)
        ended = await self._processes.run(
            Command(
                argv=[sys.executable, "-I", converter.__file__],
                folder=Path("/"),
                input=f"{base}\n{page}".encode(),
                timeout=SECONDS,
                output_limit=MAX_MARKDOWN,
            )
        )
        if ended.exit_code != 0 or ended.dropped:
            why = "it takes too long" if ended.timed_out else "it takes too much"
            raise Invalid(f"`{base}` cannot be turned into Markdown, {why}: read it `raw`", field="url")
        return ended.output.decode()

    async def _here(self, page: str, base: str) -> str:
        try:
            return await in_thread(lambda _: converter.markdown(page, base))
        except ValueError as exc:
            raise Invalid(f"`{base}` cannot be turned into Markdown: read it `raw`", field="url") from exc
