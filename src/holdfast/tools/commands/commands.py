"""How a call runs a command: in the working folder of its agent, with what the rules deny masked."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, OutcomeUnknown, Unavailable
from holdfast.domain.permission import PermissionAction
from holdfast.domain.tool import ToolReach
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath
from holdfast.ports.sandbox import ProcessResult, Sandbox, SandboxCommand
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.commands.live_output import LiveOutput
from holdfast.tools.commands.masked import Masked, masked
from holdfast.tools.commands.reserved import Reserved, to_reserve
from holdfast.tools.files.threads import Halt, in_thread
from holdfast.tools.permissions.chain import chain_of
from holdfast.tools.permissions.denied import DeniedPaths, denied_paths
from holdfast.tools.redaction import Redaction
from holdfast.tools.tool import Call

NETWORK: Final = "network"
"""What a rule is about that allows commands to reach the network: there is no tool of that name."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, and what it made although the rules deny it."""

    ended: ProcessResult
    trespasses: Sequence[str] = ()
    """Paths in the working folder."""


class Commands:
    """Runs the commands of calls."""

    def __init__(
        self,
        sandbox: Sandbox,
        folders: WorkingFolders,
        *,
        workspace: Path,
        redaction: Redaction | None = None,
        confined: bool = True,
    ) -> None:
        """Run commands in `sandbox`; it is `confined` unless the operator turned that off."""
        self._sandbox = sandbox
        self._folders = folders
        self._workspace = workspace
        self._reserved = Reserved(folders)
        self._redaction = redaction or Redaction()
        self._confined = confined
        self.reach = ToolReach.COMMANDS if confined else ToolReach.OUTSIDE
        """How far what commands change reaches."""

    def root(self, call: Call) -> Path:
        """Return the working folder of whoever calls."""
        return self._workspace / call.agent.working_folder

    def has_network(self, call: Call) -> bool:
        """Say whether commands of a call reach the network."""
        return not self._confined or has_network(call.agent, call.values)

    async def has(self, call: Call, folder: WorkingPath) -> bool:
        """Say whether a command can begin in a folder: it is there, and does not lead out of the working folder."""
        root = self.root(call)
        return folder == WORKING_ROOT or await in_thread(lambda _: _is_within(root, root / folder))

    async def run(
        self,
        call: Call,
        argv: Sequence[str],
        *,
        seconds: float,
        folder: WorkingPath = WORKING_ROOT,
        input: bytes = b"",
        readable: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        heard: Callable[[bytes], bool] = bool,
    ) -> Ran:
        """Run a command to its end, for so many seconds at most; show the pieces of output that `heard` says yes to."""
        root, denied = self.root(call), denied_paths(call.agent, call.values)
        async with self._bounded(call, denied) as bounds:
            command = SandboxCommand(
                argv=argv,
                root=root,
                folder=root / folder,
                readable=readable,
                hidden=bounds.hidden,
                kept=bounds.kept,
                network=self.has_network(call),
                environment=environment or {},
                input=input,
                timeout=seconds,
            )
            ended = await self._run(call, command, heard)
            return Ran(ended=ended, trespasses=await self._trespasses(call, denied, bounds))

    async def _run(self, call: Call, command: SandboxCommand, heard: Callable[[bytes], bool]) -> ProcessResult:
        live = LiveOutput(call, self._redaction)
        try:
            ended = await self._sandbox.run(command, on_output=lambda piece: live.hear(piece) if heard(piece) else None)
            live.end()
        except Unavailable as error:
            if not error.details.get("started", True):
                raise
            raise OutcomeUnknown(error.message, **error.details) from error
        finally:
            live.hush()
        return ended

    @asynccontextmanager
    async def _bounded(self, call: Call, denied: DeniedPaths) -> AsyncIterator[Masked]:
        """Yield what a command may not reach; nothing comes into being there while it runs."""
        name, held = call.agent.working_folder, list[WorkingPath]()
        try:
            yield await in_thread(lambda halt: self._bounds(call, denied, held, halt))
        finally:
            if held:
                await in_thread(lambda _: self._reserved.release(name, held))

    def _bounds(self, call: Call, denied: DeniedPaths, held: list[WorkingPath], halt: Halt) -> Masked:
        name = call.agent.working_folder
        with self._folders.open(name):  # it is made if it is not there, and is no link
            if self._confined:
                self._reserved.hold(name, to_reserve(denied), held)
            return masked(self.root(call), denied, halt)

    async def _trespasses(self, call: Call, denied: DeniedPaths, before: Masked) -> list[str]:
        """Return what a command has made that nobody could keep it from making."""
        if not denied.kept or not self._confined:
            return []
        root = self.root(call)
        try:
            now = await in_thread(lambda halt: masked(root, denied, halt))
        except Invalid:
            return []  # there is too much to look through by now, for which the next command is refused
        return sorted(str(path.relative_to(root)) for path in {*now.kept} - {*before.kept, *before.hidden})


def _is_within(root: Path, folder: Path) -> bool:
    return folder.is_dir() and folder.resolve().is_relative_to(root.resolve())


def has_network(agent: Agent, values: Mapping[str, Json]) -> bool:
    """Say whether a rule allows the network to commands of a run, and none above it does not."""
    decision = chain_of(agent, values).decide(NETWORK, {}, default=PermissionAction.DENY)
    return decision.verdict is PermissionAction.ALLOW
