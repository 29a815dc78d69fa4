"""Servers that are programs: in which folder each runs, and what it may reach of the machine."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.errors import McpServerFailed
from holdfast.domain.idempotency import request_digest
from holdfast.domain.ids import SpaceId
from holdfast.domain.mcp_server import McpServer, server_identity
from holdfast.mcp.references import resolved
from holdfast.ports.sandbox import Sandbox, SandboxCommand

LIFETIME: Final = 365 * 86_400.0
"""Seconds after which a server is ended in any case."""
OUTPUT_KEPT: Final = 16 * 1024
"""Bytes of what it wrote that are kept, for its last words."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers that are programs run."""

    workspace: Path
    own: Path
    """What Holdfast itself keeps: it has a folder for each server that works in none of the workspace."""
    sandbox: Sandbox
    unconfined: Sandbox
    """For those that an operator lets out."""

    def sandbox_of(self, declared: McpServer) -> Sandbox:
        """Return what a server runs in."""
        return self.sandbox if declared.sandbox == "on" else self.unconfined

    def command(self, space: SpaceId, declared: McpServer, environment: Mapping[str, str]) -> SandboxCommand:
        """Return what starts a server; the folder that it works in is made if it is not there."""
        root = self._folder(space, declared)
        words = [declared.command or "", *declared.args]
        return SandboxCommand(
            argv=[self._placed(word) for word in words],
            root=root,
            folder=root,
            readable=[*map(Path, declared.reads), *self._readable(words)],
            network=declared.network,
            environment=resolved(declared.env, environment),
            live_errors=False,
            timeout=LIFETIME,
            output_limit=OUTPUT_KEPT,
        )

    def _folder(self, space: SpaceId, declared: McpServer) -> Path:
        kept = self.own / "mcp" / request_digest([space, server_identity(declared)])[:32]
        folder = kept if declared.cwd is None else self.workspace / declared.cwd
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise McpServerFailed(f"its folder `{folder}` cannot be made: {exc.strerror}", started=False) from exc
        if folder.resolve() != folder:
            raise McpServerFailed(f"its folder `{declared.cwd}` leads out of the workspace", started=False)
        return folder

    def _placed(self, word: str) -> str:
        return os.path.normpath(self.workspace / word) if word.startswith("./") else word

    def _readable(self, words: Sequence[str]) -> list[Path]:
        """Return what a server may read of the workspace: the folders of what its command names."""
        found = []
        for word in words:
            if word.startswith("./"):
                path = Path(self._placed(word))
                if self.workspace not in path.parents or path.is_relative_to(self.own):
                    raise McpServerFailed(f"`{word}` is nothing that a server may read: name another", started=False)
                found.append(path if path.parent == self.workspace or path.is_dir() else path.parent)
        return found
