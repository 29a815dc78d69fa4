"""How the server is."""

from litestar import get
from litestar.di import NamedDependency

from holdfast.control.health import Health, Status, Version


@get("/health", summary="Say that the process answers", tags=["system"])
async def read_health() -> Status:
    """Answer as long as the process lives; nothing else is looked at."""
    return Status(status="ok")


@get("/ready", summary="Say that the process can do its work", tags=["system"])
async def read_ready(health: NamedDependency[Health]) -> Status:
    """Answer once the store does; 503 while it does not, and when the server shuts down."""
    return await health.ready()


@get("/version", summary="Say what runs here", tags=["system"])
async def read_version(health: NamedDependency[Health]) -> Version:
    """Return the version of the server."""
    return health.version


ROUTES = [read_health, read_ready, read_version]
