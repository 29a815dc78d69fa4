"""Clients generated from the OpenAPI document with tools of others have every route, and work.

The tools are installed once, under `.venv`, in environments of their own: `openapi-python-client` needs other versions
of libraries than Holdfast.
"""

import fcntl
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.api.openapi import openapi_document, openapi_json
from holdfast.domain.content import Json
from tests.api.example_data import serve_with_key
from tests.architecture.project import ROOT

SOURCE: Final = Path(__file__).parent
INSTALLED: Final = ROOT / ".venv" / "generated-clients"
"""Where the tools are installed; git ignores it."""
NPM_OPTIONS: Final = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error")
TIMEOUT_SECONDS: Final = 240

PYTHON_SCRIPT: Final = """
import json, sys
from io import BytesIO
from generated import AuthenticatedClient
from generated.api.artifacts import create_artifact
from generated.api.files import list_files, read_file_content, upload_file
from generated.api.runs import create_run, list_runs, read_run
from generated.api.threads import create_thread, list_messages, read_thread
from generated.models import ArtifactBody, ArtifactType, ErrorEnvelope, RunBody, ThreadBody
from generated.types import File

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], timeout=60.0, raise_on_unexpected_status=True)
new_thread = {"body": ThreadBody(title="generated", agent_type="bot"), "idempotency_key": "once"}
thread, again = (create_thread.sync(client=client, **new_thread) for _ in range(2))

run = create_run.sync(thread.id, client=client, body=RunBody(input_="go"), wait=30.0)
artifact = create_artifact.sync(
    run.id, client=client, body=ArtifactBody(type_=ArtifactType.DOC, title="notes", content="# notes")
)
file = upload_file.sync(client=client, name="a.bin", body=File(payload=BytesIO(b"\\x00\\x01")))
missing = read_thread.sync("missing", client=client)
assert isinstance(missing, ErrorEnvelope)
print(json.dumps({
    "same thread": thread.id == again.id,
    "run": [run.id == read_run.sync(run.id, client=client).id, run.status],
    "runs": [each.id == run.id for each in list_runs.sync(client=client).items],
    "said": [each.content for each in list_messages.sync(thread.id, client=client).items],
    "artifact": [artifact.title, artifact.version],
    "file": [each.name for each in list_files.sync(client=client).items],
    "content": read_file_content.sync(file.id, client=client).payload.read().decode("latin-1"),
    "missing": missing.error.code,
}))
"""
TYPESCRIPT_USE: Final = """
import type { components, operations, paths } from "./api";

const body: components["schemas"]["RunBody"] = { input: "go", tags: ["a"] };
type Started = paths["/api/threads/{thread_id}/runs"]["post"]["responses"][201]["content"]["application/json"];
type Listed = operations["list_runs"]["responses"][200]["content"]["application/json"];
export const first = (started: Started, listed: Listed): string[] => [started.id, started.status, listed.items[0].id];
export default body;
"""


def test_schema_names_are_unique_for_generators() -> None:
    schemas: dict[str, Any] = openapi_document()["components"]["schemas"]
    plain = Counter(re.sub(r"[^a-z0-9]", "", name.lower()) for name in schemas)
    assert [name for name, uses in plain.items() if uses > 1] == []
    assert [name for name in schemas if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []
    assert [name for name, schema in schemas.items() if schema["title"] != name] == []


def test_a_generated_python_client_has_every_route_and_works(tmp_path: Path) -> None:
    python = install_python_generator()
    (tmp_path / "openapi.json").write_bytes(openapi_json())
    run(
        *(
            python.with_name("openapi-python-client"),
            "generate",
            "--path",
            "openapi.json",
            "--output-path",
            "generated",
        ),
        *("--meta", "none", "--fail-on-warning"),
        folder=tmp_path,
        path=python.parent,
    )
    generated = {path.stem for path in (tmp_path / "generated" / "api").glob("*/*.py")} - {"__init__"}
    assert generated == set(operation_ids())
    with serve_with_key(tmp_path) as (server, key):
        output = run(python, "-c", PYTHON_SCRIPT, server.url, key, folder=tmp_path)
    assert json.loads(output) == {
        "same thread": True,
        "run": [True, "completed"],
        "runs": [True],
        "said": ["go", "hello you"],
        "artifact": ["notes", 1],
        "file": ["a.bin"],
        "content": "\x00\x01",
        "missing": "NOT_FOUND",
    }


@pytest.mark.skipif(shutil.which("npm") is None, reason="`openapi-typescript` needs Node 20 and npm")
def test_generated_typescript_types_have_every_route_and_compile(tmp_path: Path) -> None:
    tools = install_typescript_generator()
    (tmp_path / "openapi.json").write_bytes(openapi_json())
    (tmp_path / "use.ts").write_text(TYPESCRIPT_USE)
    run(tools / "openapi-typescript", "openapi.json", "-o", "api.ts", "--default-non-nullable=false", folder=tmp_path)
    run(tools / "tsc", "--noEmit", "--strict", "--target", "es2022", "use.ts", "api.ts", folder=tmp_path)
    _, _, operations = (tmp_path / "api.ts").read_text().partition("export interface operations {")
    assert sorted(re.findall(r"^    (\w+): \{$", operations, re.MULTILINE)) == sorted(operation_ids())


def operation_ids() -> list[Json]:
    """Return the id of every operation of the document."""
    return [operation["operationId"] for item in openapi_document()["paths"].values() for operation in item.values()]


def run(*command: str | Path, folder: Path, path: Path | None = None) -> str:
    """Run a command in a folder, and return its output; `path` is searched for programs first."""
    environment = None if path is None else {"PATH": f"{path}:/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install_python_generator() -> Path:
    """Install `openapi-python-client` unless it is installed, and return the Python of its environment."""
    folder = INSTALLED / "python"
    python = folder / "bin" / "python"

    def install() -> None:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        requirements = ["-r", str(SOURCE / "requirements.txt")]
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *requirements], check=True)

    install_once(folder, SOURCE / "requirements.txt", install)
    return python


def install_typescript_generator() -> Path:
    """Install `openapi-typescript` unless it is installed, and return the folder of its commands."""
    folder = INSTALLED / "typescript"

    def install() -> None:
        folder.mkdir(exist_ok=True)
        shutil.copy(SOURCE / "package.json", folder)
        subprocess.run(["npm", "install", *NPM_OPTIONS], cwd=folder, check=True)

    install_once(folder, SOURCE / "package.json", install)
    return folder / "node_modules" / ".bin"


def install_once(folder: Path, versions: Path, install: Any) -> None:
    """Call `install` unless it was called for these versions before; a lock serializes processes."""
    INSTALLED.mkdir(exist_ok=True)
    stamp = folder.with_suffix(".installed")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != versions.read_text():
            install()
            stamp.write_text(versions.read_text())
