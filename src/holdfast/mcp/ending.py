"""That a server is gone, and why."""

import asyncio

from holdfast.domain.errors import McpServerFailed


class Ending:
    """Knows why a connection ended; the first reason counts."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._why = "it is gone"
        self.came = asyncio.Event()

    def tell(self, why: str) -> None:
        """Say that it has ended."""
        if not self.came.is_set():
            self._why = why
            self.came.set()

    def error(self, *, again: bool = False) -> McpServerFailed:
        """Return what comes of it for a call; one that did not even begin may be made `again` at once."""
        return McpServerFailed(f"the MCP server `{self._server}` failed: {self._why}", started=not again, again=again)

    def refusal(self, why: str) -> McpServerFailed:
        """Return what comes of it that a server, which is still there, refuses a call."""
        return McpServerFailed(f"the MCP server `{self._server}` refused: {why}", started=False)
