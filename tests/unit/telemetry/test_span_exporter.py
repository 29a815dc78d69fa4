"""The standard environment variables select the span exporter, or it is refused clearly."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import ConsoleSpanExporter

from holdfast.bootstrap.observability import open_observability
from holdfast.domain.errors import Invalid
from holdfast.telemetry.tracing import span_exporter, span_processor
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings, TelemetrySettings

OTLP = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in OTLP:
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch


def test_the_environment_selects_the_exporter(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_TRACES_EXPORTER", "console")
    assert isinstance(span_exporter(), ConsoleSpanExporter)


def test_an_exporter_that_is_not_installed_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_TRACES_EXPORTER", "pigeon")
    with pytest.raises(Invalid, match="`OTEL_TRACES_EXPORTER` is `pigeon`"):
        span_exporter()


def test_an_unknown_otlp_protocol_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke")
    with pytest.raises(Invalid, match="`OTEL_EXPORTER_OTLP_PROTOCOL` is `smoke`: use `http/protobuf` or `grpc`"):
        span_exporter()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_missing_otlp_exporter_names_its_package(protocol: str, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    environment.setattr("holdfast.telemetry.tracing.entry_points", lambda **_: [])
    package = f"opentelemetry-exporter-otlp-proto-{protocol.split('/')[0]}"
    with pytest.raises(Invalid, match=f"run `pip install {package}`"):
        span_exporter()


def test_the_exporter_none_exports_nothing(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OTEL_TRACES_EXPORTER", "none")
    assert type(span_processor()) is SpanProcessor


async def test_traces_without_the_extra_name_its_package(environment: pytest.MonkeyPatch) -> None:
    environment.setattr("holdfast.bootstrap.observability.find_spec", lambda _: None)
    with pytest.raises(Invalid, match=r"pip install 'holdfast-agents\[otel\]'"):
        async with open_observability(TelemetrySettings(traces=True)):
            pass


def test_traces_and_content_capture_are_off_by_default(tmp_path: Path) -> None:
    settings = FolderSettings(Workspace.create(tmp_path / "w"))
    assert settings.get().telemetry == TelemetrySettings(traces=False, capture_content=False)
