"""The command runner: runs a command of a tool call in the sandbox, in the working folder of its agent.

Paths that the rules deny are masked. A command that created a denied path anyway is reported as a violation, to the
model and in the log.
"""

import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, OutcomeUnknown, Unavailable
from holdfast.domain.events.custom import PermissionDecided
from holdfast.domain.permission import PermissionAction
from holdfast.domain.tool import ToolReach
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath
from holdfast.ports.sandbox import ProcessResult, Sandbox, SandboxCommand
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.commands.live_output import LiveOutput
from holdfast.tools.commands.path_masks import PathMasks, ReservedPaths, path_masks, paths_to_reserve
from holdfast.tools.content import as_text
from holdfast.tools.permissions.policy import DeniedPaths, denied_paths, permission_chain
from holdfast.tools.redaction import Redaction
from holdfast.tools.thread_pool import CancelFlag, run_in_thread
from holdfast.tools.tool import ToolContext, ToolResult

NETWORK_RULE: Final = "network"
"""What a rule is about that allows commands to reach the network: there is no tool of that name."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, and what it made although the rules deny it."""

    ended: ProcessResult
    violations: Sequence[str] = ()
    """Paths in the working folder."""


class CommandRunner:
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
        self._reserved = ReservedPaths(folders)
        self._redaction = redaction or Redaction()
        self._confined = confined
        self.reach = ToolReach.COMMANDS if confined else ToolReach.OUTSIDE
        """How far what commands change reaches."""

    def root(self, call: ToolContext) -> Path:
        """Return the working folder of whoever calls."""
        return self._workspace / call.agent.working_folder

    def has_network(self, call: ToolContext) -> bool:
        """Say whether commands of a call reach the network."""
        return not self._confined or has_network(call.agent, call.values)

    async def has_folder(self, call: ToolContext, folder: WorkingPath) -> bool:
        """Say whether a command can begin in a folder: it is there, and does not lead out of the working folder."""
        root = self.root(call)
        return folder == WORKING_ROOT or await run_in_thread(lambda _: _is_within(root, root / folder))

    async def run(
        self,
        call: ToolContext,
        argv: Sequence[str],
        *,
        seconds: float,
        folder: WorkingPath = WORKING_ROOT,
        input: bytes = b"",
        readable: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        show_if: Callable[[bytes], bool] = bool,
    ) -> CommandResult:
        """Run a command to its end, for so many seconds at most; show the pieces of output that `heard` says yes to."""
        root, denied = self.root(call), denied_paths(call.agent, call.values)
        async with self._masked_paths(call, denied) as bounds:
            command = SandboxCommand(
                argv=argv,
                root=root,
                folder=root / folder,
                readable=readable,
                hidden=bounds.hidden,
                read_only=bounds.read_only,
                network=self.has_network(call),
                environment=environment or {},
                input=input,
                timeout=seconds,
            )
            ended = await self._run(call, command, show_if)
            return CommandResult(ended=ended, violations=await self._violations(call, denied, bounds))

    async def _run(self, call: ToolContext, command: SandboxCommand, show_if: Callable[[bytes], bool]) -> ProcessResult:
        live = LiveOutput(call, self._redaction)
        try:
            ended = await self._sandbox.run(
                command, on_output=lambda piece: live.feed(piece) if show_if(piece) else None
            )
            live.end()
        except Unavailable as error:
            if not error.details.get("started", True):
                raise
            raise OutcomeUnknown(error.message, **error.details) from error
        finally:
            live.stop()
        return ended

    @asynccontextmanager
    async def _masked_paths(self, call: ToolContext, denied: DeniedPaths) -> AsyncIterator[PathMasks]:
        """Yield what a command may not reach; nothing comes into being there while it runs."""
        name, held = call.agent.working_folder, list[WorkingPath]()
        try:
            yield await run_in_thread(lambda halt: self._mask_paths(call, denied, held, halt))
        finally:
            if held:
                await run_in_thread(lambda _: self._reserved.release(name, held))

    def _mask_paths(
        self, call: ToolContext, denied: DeniedPaths, held: list[WorkingPath], halt: CancelFlag
    ) -> PathMasks:
        name = call.agent.working_folder
        with self._folders.open(name):  # it is made if it is not there, and is no link
            if self._confined:
                self._reserved.hold(name, paths_to_reserve(denied), held)
            return path_masks(self.root(call), denied, halt)

    async def _violations(self, call: ToolContext, denied: DeniedPaths, before: PathMasks) -> list[str]:
        """Return what a command has made that nobody could keep it from making."""
        if not denied.read_only or not self._confined:
            return []
        root = self.root(call)
        try:
            now = await run_in_thread(lambda halt: path_masks(root, denied, halt))
        except Invalid:
            return []  # there is too much to look through by now, for which the next command is refused
        return sorted(str(path.relative_to(root)) for path in {*now.read_only} - {*before.read_only, *before.hidden})


def _is_within(root: Path, folder: Path) -> bool:
    return folder.is_dir() and folder.resolve().is_relative_to(root.resolve())


def has_network(agent: Agent, values: Mapping[str, Json]) -> bool:
    """Say whether a rule allows the network to commands of a run, and none above it does not."""
    decision = permission_chain(agent, values).decide(NETWORK_RULE, {}, default=PermissionAction.DENY)
    return decision.action is PermissionAction.ALLOW


def exit_notes(ended: ProcessResult, *, timeout: float) -> list[str]:
    """Return what there is to say about the end of a command, beside its output."""
    return list(_exit_notes(ended, timeout))


def decode_output(raw: bytes, *, dropped: int) -> str:
    """Return an output as text; where its middle was thrown away, a note stands for it."""
    if not dropped:
        return raw.decode(errors="replace")
    half = len(raw) - len(raw) // 2
    note = f"\n[{dropped} bytes were too many to keep]\n"
    return raw[:half].decode(errors="replace") + note + raw[half:].decode(errors="replace")


def _exit_notes(ended: ProcessResult, timeout: float) -> Iterator[str]:
    if ended.too_many_processes:
        yield "it was killed, because it had too many processes"
    elif ended.timed_out:
        yield f"it was killed after {timeout:g} seconds; what it had done by then is done"
    elif ended.signal is not None:
        yield f"it was killed by signal {ended.signal} ({_signal_name(ended.signal)})"
    else:
        yield f"exit code {ended.exit_code}"


def _signal_name(number: int) -> str:
    return next((known.name for known in signal.Signals if known == number), "a signal without a name")


MAX_NAMED_VIOLATIONS: Final = 10
"""Paths that are named."""


def with_violations(outcome: ToolResult, call: ToolContext, tool: str, paths: Sequence[str]) -> ToolResult:
    """Return the outcome of a call as a failed one, if it made any; they are left for somebody to look at."""
    if not paths:
        return outcome
    named = ", ".join(f"`{path}`" for path in paths[:MAX_NAMED_VIOLATIONS])
    more = f" and {len(paths) - MAX_NAMED_VIOLATIONS} more" if len(paths) > MAX_NAMED_VIOLATIONS else ""
    reason = f"it has made {named}{more}, which the rules deny to be written"
    decided = PermissionDecided(tool_call_id=call.id, tool=tool, decision=PermissionAction.DENY, reason=reason)
    content = f"{as_text(outcome.content)}\n[{reason}: take that back, and tell whoever you work for]"
    return replace(outcome, content=content, failed=True, events=[*outcome.events, decided])
