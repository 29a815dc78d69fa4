"""The command runner: runs a command of a tool call in the sandbox, in the working folder of its run.

Denied paths are masked. A command that created a denied path anyway is reported as a violation, to the model and in
the log.
"""

import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json
from holdfast.domain.errors import FolderChanged, Invalid, OutcomeUnknown, Unavailable
from holdfast.domain.events.custom import PermissionDecided
from holdfast.domain.permission import PermissionAction
from holdfast.domain.tool import ToolReach
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, is_outside_workspace
from holdfast.ports.sandbox import ProcessResult, Sandbox, SandboxCommand
from holdfast.ports.tools import WorkingFolders
from holdfast.tools.commands.live_output import LiveOutput
from holdfast.tools.commands.path_masks import PathMasks, ReservedPaths, path_masks, paths_to_reserve, program_masks
from holdfast.tools.commands.project_environment import ProjectEnvironment, project_environment
from holdfast.tools.content import as_text
from holdfast.tools.permissions.policy import DeniedPaths, denied_paths, permission_chain
from holdfast.tools.redaction import Redaction
from holdfast.tools.thread_pool import CancelFlag, run_in_thread
from holdfast.tools.tool import ToolContext, ToolResult

MAX_START_ATTEMPTS: Final = 5
"""Attempts to start a command while other processes move files in its working folder."""
NETWORK_RULE: Final = "network"
"""The name in rules that allow network access to commands; there is no tool of that name."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, and the denied paths that it created."""

    ended: ProcessResult
    violations: Sequence[str] = ()
    """Paths relative to the working folder."""


class CommandRunner:
    """Runs the commands of tool calls."""

    def __init__(
        self,
        sandbox: Sandbox,
        folders: WorkingFolders,
        *,
        workspace: Path,
        redaction: Redaction | None = None,
        confined: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run commands in `sandbox` with these environment variables; it is `confined` unless that was turned off."""
        self._sandbox = sandbox
        self._folders = folders
        self._workspace = workspace
        self._reserved = ReservedPaths(folders)
        self._redaction = redaction or Redaction()
        self._confined = confined
        self._variables = variables or {}
        self.reach = ToolReach.COMMANDS if confined else ToolReach.OUTSIDE
        """How far the effects of commands reach."""

    def root(self, call: ToolContext) -> Path:
        """Return the working folder of the run."""
        return self._workspace / call.working_folder

    def has_network(self, call: ToolContext) -> bool:
        """Return whether commands of a call can reach the network."""
        return not self._confined or has_network(call.agent, call.values)

    async def project_environment(self, call: ToolContext) -> ProjectEnvironment:
        """Return the environment of a shell in the working folder, if that is a project outside the workspace."""
        if not is_outside_workspace(call.working_folder):
            return ProjectEnvironment()
        root, folders = self.root(call), [self._workspace, *map(Path, call.agent.project_folders)]
        return await run_in_thread(lambda _: project_environment(root, written_by_agents=folders))

    async def has_folder(self, call: ToolContext, folder: WorkingPath) -> bool:
        """Return whether a folder exists inside the working folder, so that a command can start there."""
        root = self.root(call)
        return folder == WORKING_ROOT or await run_in_thread(
            lambda _: (root / folder).is_dir() and (root / folder).resolve().is_relative_to(root.resolve())
        )

    async def run(
        self,
        call: ToolContext,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        folder: WorkingPath = WORKING_ROOT,
        input: bytes = b"",
        readable: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        masked_programs: frozenset[str] = frozenset(),
        show_if: Callable[[bytes], bool] = bool,
    ) -> CommandResult:
        """Run a command to its end, showing the pieces of output for which `show_if` is true.

        In a sandbox, nothing can run the `masked_programs`.

        Raises:
            FolderChanged: others moved files in the working folder at each of several attempts to start.

        """
        root = self.root(call)
        programs = await run_in_thread(lambda _: program_masks(masked_programs)) if masked_programs else ()
        command = SandboxCommand(
            argv=argv,
            root=root,
            folder=root / folder,
            readable=readable,
            hidden=programs,
            network=self.has_network(call),
            environment={**self._variables, **(environment or {})},
            input=input,
            timeout=timeout_seconds,
        )
        for _ in range(MAX_START_ATTEMPTS - 1):
            with suppress(FolderChanged):
                return await self._run_masked(call, command, show_if)
        return await self._run_masked(call, command, show_if)

    async def _run_masked(
        self, call: ToolContext, command: SandboxCommand, show_if: Callable[[bytes], bool]
    ) -> CommandResult:
        """Run a command with the denied paths masked."""
        denied = denied_paths(call.agent, call.values, folder=call.working_folder)
        async with self._masked_paths(call, denied) as masks:
            hidden = [*masks.hidden, *command.hidden]
            masked = replace(command, hidden=hidden, read_only=masks.read_only, inodes=masks.inodes)
            ended = await self._run(call, masked, show_if)
            return CommandResult(ended=ended, violations=await self._violations(call, denied, masks))

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
        """Yield the denied paths; those that do not exist are reserved while the command runs."""
        name, reserved = call.working_folder, list[WorkingPath]()

        def mask(cancelled: CancelFlag) -> PathMasks:
            with self._folders.open(name):  # creates it if missing, and refuses a link
                if self._confined:
                    self._reserved.reserve(name, paths_to_reserve(denied), reserved)
                return path_masks(self.root(call), denied, cancelled)

        try:
            yield await run_in_thread(mask)
        finally:
            if reserved:
                await run_in_thread(lambda _: self._reserved.release(name, reserved))

    async def _violations(self, call: ToolContext, denied: DeniedPaths, before: PathMasks) -> list[str]:
        """Return the denied paths that a command created in spite of the masks."""
        if not denied.read_only or not self._confined:
            return []
        root = self.root(call)
        try:
            after = await run_in_thread(lambda cancelled: path_masks(root, denied, cancelled))
        except (Invalid, FolderChanged):
            return []  # there are too many entries to scan by now, or others move them: the next command is refused
        return sorted(str(path.relative_to(root)) for path in {*after.read_only} - {*before.read_only, *before.hidden})


def has_network(agent: Agent, values: Mapping[str, Json]) -> bool:
    """Return whether the rules of an agent and of its ancestors allow network access to commands."""
    decision = permission_chain(agent, values).decide(NETWORK_RULE, {}, default=PermissionAction.DENY)
    return decision.action is PermissionAction.ALLOW


def exit_note(ended: ProcessResult, *, timeout: float) -> str:
    """Return how a command ended, in words."""
    if ended.too_many_processes:
        return "it was killed, because it had too many processes"
    if ended.timed_out:
        return f"it was killed after {timeout:g} seconds; its effects until then remain"
    if ended.signal is not None:
        name = next((each.name for each in signal.Signals if each == ended.signal), "unknown")
        return f"it was killed by signal {ended.signal} ({name})"
    return f"exit code {ended.exit_code}"


MAX_NAMED_VIOLATIONS: Final = 10
"""Paths that the message about violations names."""


def with_violations(result: ToolResult, call: ToolContext, tool: str, paths: Sequence[str]) -> ToolResult:
    """Return `result` as failed if the call created denied paths; the files are left for inspection."""
    if not paths:
        return result
    named = ", ".join(f"`{path}`" for path in paths[:MAX_NAMED_VIOLATIONS])
    more = f" and {len(paths) - MAX_NAMED_VIOLATIONS} more" if len(paths) > MAX_NAMED_VIOLATIONS else ""
    reason = f"it created {named}{more}, which the rules do not allow to be written"
    event = PermissionDecided(tool_call_id=call.id, tool=tool, decision=PermissionAction.DENY, reason=reason)
    content = f"{as_text(result.content)}\n[{reason}: undo that, and report it to the user]"
    return replace(result, content=content, failed=True, events=[*result.events, event])
