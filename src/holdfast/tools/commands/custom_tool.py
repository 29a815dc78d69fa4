"""Custom tools: a command in any language that reads the arguments as JSON and writes its result as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.domain.untrusted import taint_source_name
from holdfast.ports.sandbox import ProcessResult
from holdfast.tools.commands.command_runner import CommandRunner, exit_note, with_violations
from holdfast.tools.tool import ToolContext, ToolResult

COMMAND_MARGIN_SECONDS: Final = 60.0
"""Seconds of a call beyond the timeout of its command, to start it and to kill its processes."""
MAX_STDERR_CHARS: Final = 4_000
"""Characters of standard error that the model reads, the last ones."""
CALL_KEY_VARIABLE: Final = "HOLDFAST_CALL_KEY"
"""The environment variable with the idempotency key of the call."""
TOOL_FOLDER_VARIABLE: Final = "HOLDFAST_TOOL_FOLDER"


class CustomTool:
    """`Tool` that runs a command in the working folder of the calling agent, with read access to the tool's folder.

    `./` at the beginning of a word of the command stands for the tool's folder.
    """

    def __init__(
        self,
        spec: ToolSpec,
        command: Sequence[str],
        *,
        folder: Path,
        commands: CommandRunner,
        trusted: bool = False,
        readable: Sequence[Path] = (),
    ) -> None:
        """Run `command`, which may also read the `readable` paths.

        With network access its results are untrusted, unless its author declared them `trusted`.
        """
        self.spec = replace(spec, timeout=spec.timeout + COMMAND_MARGIN_SECONDS, reach=commands.reach)
        self._timeout = spec.timeout
        self._command = [str(folder / word) if word.startswith("./") else word for word in command]
        self._folder = folder
        self._commands = commands
        self._trusted = trusted
        self._readable = [folder, *readable]

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Run the command."""
        command = await self._commands.run(
            call,
            self._command,
            timeout_seconds=self._timeout,
            input=msgspec.json.encode(arguments),
            readable=self._readable,
            environment={CALL_KEY_VARIABLE: call.key, TOOL_FOLDER_VARIABLE: str(self._folder)},
            show_if=lambda _: False,
        )
        result = self._result(command.ended)
        if not self._trusted and self._commands.has_network(call):
            result = replace(result, untrusted=taint_source_name("tool", self.spec.name))
        return with_violations(result, call, self.spec.name, command.violations)

    def _result(self, ended: ProcessResult) -> ToolResult:
        if ended.exit_code != 0:
            stderr = ended.errors.decode(errors="replace").strip()[-MAX_STDERR_CHARS:]
            reason = exit_note(ended, timeout=self._timeout)
            return ToolResult(
                content=f"`{self.spec.name}` failed ({reason}){f': {stderr}' if stderr else ''}",
                failed=True,
                unknown=ended.exit_code is None and self.spec.kind is ToolClass.EFFECTFUL,
            )
        try:
            return ToolResult(content=msgspec.json.decode(ended.output))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
            sample = ended.output[:200].decode(errors="replace")
            return ToolResult(content=f"`{self.spec.name}` did not write JSON ({exc}): {sample}", failed=True)


class BrokenTool:
    """`Tool` with invalid files: its calls fail with the reason, and other tools keep working."""

    def __init__(self, name: str, reason: str) -> None:
        self.spec = ToolSpec(
            name=name,
            description="This tool is broken and cannot be used for now.",
            parameters={"type": "object"},
            kind=ToolClass.IDEMPOTENT,
            read_only=True,
        )
        self._reason = reason

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Fail with the reason."""
        return ToolResult(content=f"this tool cannot be used now: {self._reason}", failed=True)
