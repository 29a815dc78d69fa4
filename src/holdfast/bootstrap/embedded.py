"""`holdfast.open`: a workspace in this process, with the Python API of `Client`.

The API is the same code on both sides: `Holdfast` is a `Client` whose requests go to the HTTP app in this process,
without a socket. So errors, limits, paging and streams cannot differ from those of a server.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.api.asgi import AsgiApp
from holdfast.bootstrap.api_app import NoKeys, open_api
from holdfast.bootstrap.workspace import Options, open_workspace
from holdfast.client.asgi_transport import AsgiTransport
from holdfast.client.client import Client
from holdfast.domain.errors import Unavailable
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.tools.tool import Tool
from holdfast.workspace.code_agents import CodeAgent as Agent

__all__ = ["Agent", "Holdfast", "open"]


class Holdfast(Client):
    """An open workspace of this process: the same methods as `Client`."""

    def __init__(self, app: AsgiApp, *, space: str = DEFAULT_SPACE) -> None:
        super().__init__("http://embedded", key="", space=space, retry_seconds=0, transport=AsgiTransport(app))


@asynccontextmanager
async def open(
    workspace: str | Path,
    *,
    agents: Sequence[Agent] = (),
    tools: Sequence[Tool] = (),
    space: str = DEFAULT_SPACE,
    database: str | Path | None = None,
    workers: int | None = None,
) -> AsyncIterator[Holdfast]:
    """Open a workspace, and run its agents until the block ends.

    `agents` are those that the program defines, beside the folders in `agents/`, which may be missing then. Agents in
    folders may name the `tools`. The store is the SQLite file of the workspace, or the `database`. `workers` is the
    number of concurrent runs, by default that of the settings; 0 leaves them to other processes.
    """
    if agents:
        create_agents_folder(Path(workspace))
    options = Options(workers=workers, tools=tools, agents=agents)
    async with (
        open_workspace(workspace, database=database, options=options) as opened,
        open_api(opened, keys=NoKeys()) as api,
        Holdfast(api.app, space=space) as client,
    ):
        yield client


def create_agents_folder(workspace: Path) -> None:
    """Make a folder a workspace, for agents that are not in folders."""
    try:
        (workspace / "agents").mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise Unavailable(f"cannot create `{workspace}/agents`: {exc.strerror or exc}") from exc
