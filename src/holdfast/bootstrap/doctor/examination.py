"""The whole examination, in the order in which things depend on each other."""

import asyncio
import shlex
from pathlib import Path

from holdfast.bootstrap.doctor.confinement import look_at_sandbox
from holdfast.bootstrap.doctor.database import look_at_database
from holdfast.bootstrap.doctor.definitions import Definitions
from holdfast.bootstrap.doctor.disk import look_at_disk, room
from holdfast.bootstrap.doctor.finding import Finding, failure
from holdfast.bootstrap.doctor.providers import look_at_providers
from holdfast.bootstrap.doctor.tracing import look_at_tracing
from holdfast.bootstrap.doctor.versions import look_at_versions
from holdfast.bootstrap.store import is_postgres
from holdfast.domain.errors import NotFound, Unavailable
from holdfast.workspace.folder import Workspace


async def examine(folder: Path, *, database: str | None = None) -> list[Finding]:
    """Look at all that a server on this workspace needs. Nothing is changed, and one that runs is not disturbed."""
    found = look_at_versions()
    try:
        workspace = Workspace(folder)
    except NotFound as missing:
        return [*found, failure("workspace", missing.message, remedy=f"run `holdfast init {shlex.quote(str(folder))}`")]
    except Unavailable as wrong:
        return [*found, failure("workspace", wrong.message, remedy="let the user of the server read the folder")]
    definitions = Definitions(workspace)
    where = database or workspace.database
    return [
        *found,
        *definitions.look(),
        *await look_at_providers(definitions.settings.providers, definitions.agents),
        await look_at_sandbox(definitions.settings, needed=definitions.has_commands),
        *look_at_tracing(definitions.settings.telemetry),
        *await look_at_database(where, own=database is None),
        *await asyncio.to_thread(_look_at_disks, workspace, where),
    ]


def _look_at_disks(workspace: Workspace, where: str | Path) -> list[Finding]:
    """Look at the disk of the log; where that is on a server, only for room for what else there is."""
    if is_postgres(where):
        return [room(workspace.path)]
    folder = Path(where).absolute().parent
    return look_at_disk(folder if folder.is_dir() else workspace.path)
