"""Routes for health, readiness, version, and Prometheus metrics."""

from litestar import Response, get
from litestar.di import NamedDependency

from holdfast.control.monitoring import HealthControl, HealthStatus, MetricsControl, ServerVersion
from holdfast.metrics.instruments import PROMETHEUS_MEDIA_TYPE


@get("/health", summary="Say that the process answers", tags=["system"])
async def read_health() -> HealthStatus:
    """Answer as long as the process lives; nothing else is looked at."""
    return HealthStatus(status="ok")


@get("/ready", summary="Say that the process can do its work", tags=["system"])
async def read_ready(health: NamedDependency[HealthControl]) -> HealthStatus:
    """Answer once the store does; 503 while it does not, and when the server shuts down."""
    return await health.ready()


@get("/version", summary="Say what runs here", tags=["system"])
async def read_version(health: NamedDependency[HealthControl]) -> ServerVersion:
    """Return the version of the server."""
    return health.version


ROUTES = [read_health, read_ready, read_version]


@get(
    "/metrics",
    summary="Read what the process counts, as Prometheus does",
    tags=["system"],
    opt={"content": {"text/plain": str}},
)
async def read_metrics(metrics: NamedDependency[MetricsControl]) -> Response[str]:
    """Return the numbers; a store that does not answer is told of, and does not keep the others back."""
    return Response(await metrics.read(), media_type=PROMETHEUS_MEDIA_TYPE)


METRICS_ROUTES = [read_metrics]
