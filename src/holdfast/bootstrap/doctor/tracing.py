"""Traces, where they are turned on: whether what they need is installed. Nothing is sent."""

from holdfast.bootstrap.doctor.finding import Finding, failure, well
from holdfast.bootstrap.observing import check_installed
from holdfast.domain.errors import Invalid
from holdfast.workspace.settings import TelemetrySettings


def look_at_tracing(settings: TelemetrySettings) -> list[Finding]:
    """Return whether spans can be made and sent; nothing where nobody wants them."""
    if not settings.traces:
        return []
    try:
        _check()
    except Invalid as wrong:
        remedy = "do so, or take `traces` out of `settings.json`: the server does not start as it is"
        return [failure("traces", wrong.message, remedy=remedy)]
    said = "with what people, models and tools say" if settings.capture_content else "without what was said"
    return [well("traces", f"spans are sent, {said}")]


def _check() -> None:
    check_installed()
    from holdfast.telemetry.tracing import span_processor

    span_processor().shutdown()
