"""Routes for health, readiness, version, and Prometheus metrics."""

from litestar import Response, get
from litestar.di import NamedDependency

from holdfast.control.monitoring import HealthControl, HealthStatus, MetricsControl, ServerVersion
from holdfast.metrics.instruments import PROMETHEUS_MEDIA_TYPE


@get("/health", summary="Check liveness", tags=["system"])
async def read_health() -> HealthStatus:
    """Respond as long as the process lives; nothing else is checked."""
    return HealthStatus(status="ok")


@get("/ready", summary="Check readiness", tags=["system"])
async def read_ready(health: NamedDependency[HealthControl]) -> HealthStatus:
    """Respond with 200 if the store takes writes, with 503 otherwise and during shutdown; a result holds for 2 s."""
    return await health.ready()


@get("/version", summary="Read the server version", tags=["system"])
async def read_version(health: NamedDependency[HealthControl]) -> ServerVersion:
    """Return the name and version of the server."""
    return health.version


ROUTES = [read_health, read_ready, read_version]


@get(
    "/metrics",
    summary="Read Prometheus metrics",
    tags=["system"],
    opt={"content": {"text/plain": str}},
)
async def read_metrics(metrics: NamedDependency[MetricsControl]) -> Response[str]:
    """Return all metrics; if the store does not respond, without its own, and `holdfast_store_up` is 0."""
    return Response(await metrics.read(), media_type=PROMETHEUS_MEDIA_TYPE)


METRICS_ROUTES = [read_metrics]
