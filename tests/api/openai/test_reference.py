"""The reference page matches the code, and the programs of the guide run."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Final

from holdfast.api.errors import status_of
from holdfast.api.openai.completions import COMPLETION_ERRORS, MAX_WAIT_SECONDS, RunStopped
from holdfast.api.openai.requests import UNSUPPORTED_PARAMETERS, CompletionRequest
from holdfast.api.openai.responses import OPENAI_ERROR_CODES, RUN_STOPPED_STATUS
from holdfast.api.openai.routes import ROUTES
from holdfast.api.openapi import openapi_document
from holdfast.domain.message import MAX_INPUT_MESSAGES
from holdfast.tools.client_tools import MAX_CLIENT_TOOLS
from tests.api.site import Site
from tests.architecture.markdown import python_blocks, rows
from tests.architecture.project import ROOT

REFERENCE: Final = ROOT / "docs" / "reference" / "openai.md"
PAGE: Final = REFERENCE.read_text()
GUIDE: Final = ROOT / "docs" / "guides" / "openai.md"


def test_exactly_the_routes_are_documented() -> None:
    routes = {
        (f"`{method.upper()} {path}`", operation["summary"])
        for path, item in openapi_document(ROUTES)["paths"].items()
        for method, operation in item.items()
    }
    written = rows(REFERENCE, "route", "what it does", "answer")
    assert {(route, summary) for route, summary, _ in written} == routes
    assert [answer for *_, answer in written if not answer.startswith("200 ")] == []


def test_every_parameter_is_documented_with_why_it_is_unsupported() -> None:
    for name in CompletionRequest.__struct_fields__:
        assert f"\n| `{name}` | " in PAGE
    for name, (_, why) in UNSUPPORTED_PARAMETERS.items():
        assert re.search(rf"^\| `{name}` \| .* \| {re.escape(why)} \|$", PAGE, re.MULTILINE)
    assert f"up to {MAX_INPUT_MESSAGES} messages" in PAGE and f"up to {MAX_CLIENT_TOOLS} functions" in PAGE
    assert f"within {MAX_WAIT_SECONDS:.0f} seconds" in PAGE


def test_exactly_the_errors_are_documented() -> None:
    errors = {f"`{OPENAI_ERROR_CODES.get(error.code, error.code)}`": error for error in COMPLETION_ERRORS}
    del errors[f"`{RunStopped.code}`"]  # responses have its reason instead
    written = {code: (status, meaning) for code, status, meaning in rows(REFERENCE, "code", "status", "meaning")}
    assert set(written) == {*errors, *(f"`{code}`" for code in OPENAI_ERROR_CODES.values())}
    for code, error in errors.items():
        assert written[code] == (str(status_of(error(""))), (error.__doc__ or "").splitlines()[0])
    assert [code for code in RUN_STOPPED_STATUS if f"`{code}`" not in PAGE] == []


async def test_the_programs_of_the_guide_run(site: Site, tmp_path: Path) -> None:
    program = "\n".join(block.code for block in python_blocks(GUIDE)).replace("http://localhost:5050", site.url)
    (tmp_path / "guide.py").write_text(program)
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "guide.py"),
        cwd=tmp_path,
        env={"NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await running.communicate()
    assert running.returncode == 0, stderr.decode()
    assert stdout.decode().splitlines()[-1] == "it is sunny in Rome"
