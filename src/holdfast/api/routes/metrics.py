"""What Prometheus scrapes."""

from litestar import Response, get
from litestar.di import NamedDependency

from holdfast.control.metrics import MetricsControl
from holdfast.metrics.instruments import PROMETHEUS_MEDIA_TYPE


@get(
    "/metrics",
    summary="Read what the process counts, as Prometheus does",
    tags=["system"],
    opt={"content": {"text/plain": str}},
)
async def read_metrics(metrics: NamedDependency[MetricsControl]) -> Response[str]:
    """Return the numbers; a store that does not answer is told of, and does not keep the others back."""
    return Response(await metrics.read(), media_type=PROMETHEUS_MEDIA_TYPE)


ROUTES = [read_metrics]
