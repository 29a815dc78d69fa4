"""Custom tools: a command in any language that reads the arguments as JSON and writes its result as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.ports.sandbox import ProcessResult
from holdfast.tools.commands.command_runner import CommandRunner, exit_notes, with_violations
from holdfast.tools.tool import ToolContext, ToolResult

COMMAND_MARGIN_SECONDS: Final = 60.0
"""Seconds that a call has beside those of its command, to start it and to see that all of it is gone."""
MAX_STDERR_CHARS: Final = 4_000
"""Characters that a model reads of what a command wrote to its errors, the last ones."""
CALL_KEY_VARIABLE: Final = "HOLDFAST_CALL_KEY"
"""The variable with the key of the call: the same however often it is made."""
TOOL_FOLDER_VARIABLE: Final = "HOLDFAST_TOOL_FOLDER"


class CustomTool:
    """`Tool`: runs a command in the working folder of the agent that calls. Its own folder it can only read.

    `./` at the beginning of a word stands for its own folder.
    """

    def __init__(self, spec: ToolSpec, command: Sequence[str], *, folder: Path, commands: CommandRunner) -> None:
        self.spec = replace(spec, timeout=spec.timeout + COMMAND_MARGIN_SECONDS, reach=commands.reach)
        self._timeout = spec.timeout
        self._command = [str(folder / word) if word.startswith("./") else word for word in command]
        self._folder = folder
        self._commands = commands

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Run the command."""
        ran = await self._commands.run(
            call,
            self._command,
            seconds=self._timeout,
            input=msgspec.json.encode(arguments),
            readable=[self._folder],
            environment={CALL_KEY_VARIABLE: call.key, TOOL_FOLDER_VARIABLE: str(self._folder)},
            show_if=lambda _: False,
        )
        return with_violations(self._result(ran.ended), call, self.spec.name, ran.violations)

    def _result(self, ended: ProcessResult) -> ToolResult:
        if ended.exit_code != 0:
            cut_off = ended.exit_code is None and self.spec.kind is ToolClass.EFFECTFUL
            return ToolResult(content=self._failure(ended), failed=True, unknown=cut_off)
        try:
            return ToolResult(content=msgspec.json.decode(ended.output))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
            said = ended.output[:200].decode(errors="replace")
            return ToolResult(content=f"`{self.spec.name}` wrote no JSON ({exc}): {said}", failed=True)

    def _failure(self, ended: ProcessResult) -> str:
        errors = ended.errors.decode(errors="replace").strip()[-MAX_STDERR_CHARS:]
        said = "; ".join(exit_notes(ended, timeout=self._timeout))
        return f"`{self.spec.name}` failed ({said}){f': {errors}' if errors else ''}"


class BrokenTool:
    """`Tool` whose files are in error: whoever calls it is told so, and nobody else is disturbed."""

    def __init__(self, name: str, reason: str) -> None:
        self.spec = ToolSpec(
            name=name,
            description="This tool is broken for now, and cannot be used.",
            parameters={"type": "object"},
            kind=ToolClass.IDEMPOTENT,
            read_only=True,
        )
        self._reason = reason

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Say what is wrong."""
        return ToolResult(content=f"this tool cannot be used now: {self._reason}", failed=True)
