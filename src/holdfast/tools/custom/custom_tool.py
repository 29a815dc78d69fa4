"""A tool that is a command: it reads the arguments of a call as JSON, and writes its result as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.ports.sandbox import ProcessResult
from holdfast.tools.commands.commands import Commands
from holdfast.tools.commands.endings import told
from holdfast.tools.commands.trespasses import with_trespasses
from holdfast.tools.tool import Call, Outcome

MARGIN: Final = 60.0
"""Seconds that a call has beside those of its command, to start it and to see that all of it is gone."""
MOST_ERRORS: Final = 4_000
"""Characters that a model reads of what a command wrote to its errors, the last ones."""
KEY: Final = "HOLDFAST_CALL_KEY"
"""The variable with the key of the call: the same however often it is made."""
TOOL_FOLDER: Final = "HOLDFAST_TOOL_FOLDER"


class CustomTool:
    """`Tool`: runs a command in the working folder of the agent that calls. Its own folder it can only read.

    `./` at the beginning of a word stands for its own folder.
    """

    def __init__(self, spec: ToolSpec, command: Sequence[str], *, folder: Path, commands: Commands) -> None:
        self.spec = replace(spec, timeout=spec.timeout + MARGIN, reach=commands.reach)
        self._timeout = spec.timeout
        self._command = [str(folder / word) if word.startswith("./") else word for word in command]
        self._folder = folder
        self._commands = commands

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Run the command."""
        ran = await self._commands.run(
            call,
            self._command,
            seconds=self._timeout,
            input=msgspec.json.encode(arguments),
            readable=[self._folder],
            environment={KEY: call.key, TOOL_FOLDER: str(self._folder)},
            heard=lambda _: False,
        )
        return with_trespasses(self._outcome(ran.ended), call, self.spec.name, ran.trespasses)

    def _outcome(self, ended: ProcessResult) -> Outcome:
        if ended.exit_code != 0:
            cut_off = ended.exit_code is None and self.spec.kind is ToolClass.EFFECTFUL
            return Outcome(content=self._failure(ended), failed=True, unknown=cut_off)
        try:
            return Outcome(content=msgspec.json.decode(ended.output))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
            said = ended.output[:200].decode(errors="replace")
            return Outcome(content=f"`{self.spec.name}` wrote no JSON ({exc}): {said}", failed=True)

    def _failure(self, ended: ProcessResult) -> str:
        errors = ended.errors.decode(errors="replace").strip()[-MOST_ERRORS:]
        said = "; ".join(told(ended, timeout=self._timeout))
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

    async def run(self, call: Call, arguments: dict[str, Json]) -> Outcome:
        """Say what is wrong."""
        return Outcome(content=f"this tool cannot be used now: {self._reason}", failed=True)
