"""Where spans go, as the standard variables of the environment say: `OTEL_TRACES_EXPORTER` and its kin."""

import os
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from holdfast.domain.errors import Invalid

_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_DEFAULT_PROTOCOL: Final = "http/protobuf"


def processor() -> SpanProcessor:
    """Return what sends spans in batches, from a thread of its own; `none` in the environment sends nothing."""
    return SpanProcessor() if _wanted() == "none" else BatchSpanProcessor(exporter())


def exporter() -> SpanExporter:
    """Return what the environment asks for: OTLP unless it says otherwise. What is not installed is `Invalid`."""
    wanted = _wanted()
    name = _otlp() if wanted == "otlp" else wanted
    found = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if found is None:
        raise Invalid(_missing(wanted, name), field="telemetry")
    made: Any = found.load()
    return made()  # type: ignore[no-any-return]


def _wanted() -> str:
    return os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"


def _otlp() -> str:
    said = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = said or _DEFAULT_PROTOCOL
    if protocol not in _PROTOCOLS:
        known = " or ".join(f"`{each}`" for each in _PROTOCOLS)
        raise Invalid(f"`OTEL_EXPORTER_OTLP_PROTOCOL` is `{protocol}`: say {known}", field="telemetry")
    return _PROTOCOLS[protocol]


def _missing(wanted: str, name: str) -> str:
    if wanted == "otlp":
        package = f"opentelemetry-exporter-{name.replace('_', '-')}"
        return f"spans go to OTLP, which needs a package: run `pip install {package}`, or set `OTEL_TRACES_EXPORTER`"
    return f"`OTEL_TRACES_EXPORTER` is `{wanted}`, and no package here has it: install one, or say `otlp` or `console`"
