"""Traces that a server exports to an OTLP receiver, parsed with the protobuf types of the protocol."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from holdfast.workspace.folder import Workspace
from tests.api.server_process import run_server

INPUT = "open sesame"
proto: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


class Receiver(ThreadingHTTPServer):
    """A collector that receives spans over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ReceiverHandler)
        self.requests: list[Any] = []

    @property
    def url(self) -> str:
        """The URL of the receiver."""
        return f"http://127.0.0.1:{self.server_port}"


class _ReceiverHandler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(proto.ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = Thread(target=receiver.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


def run_agent_on_server(folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, **telemetry: bool) -> str:
    """Run an agent on a server that exports to a receiver, and return the id of the run."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    Workspace.create(folder / "workspace")
    settings = {"telemetry": {"traces": True, **telemetry}}
    (folder / "workspace" / "settings.json").write_text(json.dumps(settings))
    with run_server(folder, "--quiet") as server:
        thread = server.request("/api/threads", {"agent_type": "hello"})["id"]
        run: str = server.request(f"/api/threads/{thread}/runs?wait=60", {"input": INPUT})["id"]
        assert server.stop() == (0, "")  # pending spans are exported before the server ends
    return run


def spans_of(receiver: Receiver) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the spans by the first word of their names, each with its attributes."""
    resources = [each for request in receiver.requests for each in request.resource_spans]
    assert {_attributes(each.resource)["service.name"].string_value for each in resources} == {"holdfast"}
    spans = [span for each in resources for scope in each.scope_spans for span in scope.spans]
    return {span.name.split()[0]: (span, _attributes(span)) for span in spans}


def _attributes(owner: Any) -> dict[str, Any]:
    return {attribute.key: attribute.value for attribute in owner.attributes}


def test_a_run_is_exported_as_one_trace_without_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_receiver() as receiver:
        run = run_agent_on_server(tmp_path, receiver, monkeypatch)
        spans = spans_of(receiver)
    (work, work_attributes), (chat, chat_attributes) = spans["invoke_agent"], spans["chat"]
    assert set(spans) == {"invoke_agent", "chat"}
    assert (work.name, work_attributes["holdfast.run.id"].string_value) == ("invoke_agent hello", run)
    assert (chat.trace_id, chat.parent_span_id) == (work.trace_id, work.span_id)
    assert chat_attributes["gen_ai.operation.name"].string_value == "chat"
    assert chat_attributes["gen_ai.provider.name"].string_value == "scripted"
    assert INPUT not in str(receiver.requests)


def test_content_is_exported_if_it_is_enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_receiver() as receiver:
        run_agent_on_server(tmp_path, receiver, monkeypatch, capture_content=True)
        _, chat_attributes = spans_of(receiver)["chat"]
    assert INPUT in chat_attributes["gen_ai.input.messages"].string_value
