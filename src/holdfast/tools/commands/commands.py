"""How a call runs a command: in the working folder of its agent, with what the rules deny masked."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.domain.errors import OutcomeUnknown, Unavailable
from holdfast.domain.permission import Verdict
from holdfast.domain.working_path import HERE, WorkingPath
from holdfast.ports.processes import Ended
from holdfast.ports.sandbox import Confined, Sandbox
from holdfast.ports.working_folder import WorkingFolders
from holdfast.tools.commands.live_output import LiveOutput
from holdfast.tools.commands.masked import Masked, masked
from holdfast.tools.files.threads import Halt, in_thread
from holdfast.tools.permissions.chain import chain_of
from holdfast.tools.permissions.denied import denied_paths
from holdfast.tools.redaction import Redaction
from holdfast.tools.tool import Call

NETWORK: Final = "network"
"""What a rule is about that allows commands to reach the network: there is no tool of that name."""


class Commands:
    """Runs the commands of calls."""

    def __init__(
        self, sandbox: Sandbox, folders: WorkingFolders, *, workspace: Path, redaction: Redaction | None = None
    ) -> None:
        self._sandbox = sandbox
        self._folders = folders
        self._workspace = workspace
        self._redaction = redaction or Redaction()

    def root(self, call: Call) -> Path:
        """Return the working folder of whoever calls."""
        return self._workspace / call.agent.working_folder

    async def has(self, call: Call, folder: WorkingPath) -> bool:
        """Say whether a command can begin in a folder: it is there, and does not lead out of the working folder."""
        root = self.root(call)
        return folder == HERE or await in_thread(lambda _: _is_within(root, root / folder))

    async def run(
        self,
        call: Call,
        argv: Sequence[str],
        *,
        seconds: float,
        folder: WorkingPath = HERE,
        input: bytes = b"",
        readable: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        heard: Callable[[bytes], bool] = bool,
    ) -> Ended:
        """Run a command to its end, for so many seconds at most; show the pieces of output that `heard` says yes to."""
        root = self.root(call)
        bounds = await in_thread(lambda halt: self._bounds(call, halt))
        command = Confined(
            argv=argv,
            root=root,
            folder=root / folder,
            readable=readable,
            hidden=bounds.hidden,
            kept=bounds.kept,
            network=has_network(call),
            environment=environment or {},
            input=input,
            timeout=seconds,
        )
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

    def _bounds(self, call: Call, halt: Halt) -> Masked:
        with self._folders.open(call.agent.working_folder):  # it is made if it is not there, and is no link
            return masked(self.root(call), denied_paths(call.agent, call.values), halt)


def _is_within(root: Path, folder: Path) -> bool:
    return folder.is_dir() and folder.resolve().is_relative_to(root.resolve())


def has_network(call: Call) -> bool:
    """Say whether a rule allows the network to commands of a run, and none above it does not."""
    decision = chain_of(call.agent, call.values).decide(NETWORK, {}, default=Verdict.DENY)
    return decision.verdict is Verdict.ALLOW
