"""The server guide documents the options and limits of the server."""

import re
from pathlib import Path
from typing import Any, Final

import typer

from holdfast.api import waiting_connections
from holdfast.api.errors import MAX_URL_BYTES, AddressTooLong, BodyTooLarge, HeadersTooLarge, RequestTimeout, TooDeep
from holdfast.api.json_body import MAX_BODY_BYTES, MAX_JSON_DEPTH
from holdfast.api.middleware import MAX_HEADER_BYTES
from holdfast.api.router import ROUTES
from holdfast.api.routes.artifacts import create_artifact, upload_file
from holdfast.api.routes.memories import import_memories
from holdfast.api.routes.schedules import deliver_hook
from holdfast.api.routes.skills import import_skill
from holdfast.api.uvicorn_protocols import MAX_HEADER_LINES
from holdfast.bootstrap.logs import LogFormat
from holdfast.cli.app import app
from holdfast.control.errors import TooManyStreams
from holdfast.control.schedules import MAX_HOOK_BODY_BYTES
from holdfast.control.streams.live_streams import StreamLimits
from holdfast.domain.errors import TooLarge
from holdfast.domain.validation import MAX_EXTREME_NUMBERS, MAX_JSON_VALUES
from holdfast.workspace.settings import DEFAULT_WORKERS
from tests.architecture.markdown import rows
from tests.architecture.project import ROOT, package_modules

GUIDE: Final = ROOT / "docs" / "guides" / "server.md"
LOGGER: Final = re.compile(r'getLogger\("(holdfast\.\w+)"\)')
OTHERWISE: Final = {
    "--database": "the workspace's own SQLite file",
    "--workers": f"as `settings.json` says, {DEFAULT_WORKERS}",
}
"""Effective defaults of options whose default is null."""


def options() -> dict[str, Any]:
    """Return the options of the command, by name."""
    command: Any = typer.main.get_command(app)
    return {parameter.opts[0]: parameter for parameter in command.commands["serve"].params}


def default_of(name: str, option: Any) -> str:
    """Return the documented default of an option."""
    match option.default:
        case None:
            return OTHERWISE.get(name, "none")
        case False:
            return ""
        case int(number):
            return str(number)
        case Path() | str() as text:
            return f"`{text}`"
        case other:
            raise AssertionError(other)


def mebibytes(limit: object) -> str:
    """Return a limit as the guide writes it."""
    assert isinstance(limit, int)
    return f"{limit // 2**20} MiB"


def test_the_guide_lists_exactly_the_options_of_the_command_with_their_defaults() -> None:
    documented = {
        name.strip("`").split()[0]: default for name, default, _ in rows(GUIDE, "option", "default", "meaning")
    }
    assert documented == {name: default_of(name, option) for name, option in options().items()}


def test_the_guide_shows_the_values_and_formats_of_options() -> None:
    documented = {name.strip("`").split()[0]: name.strip("`").split()[1:] for name, *_ in rows(GUIDE, "option")}
    assert {name for name, value in documented.items() if not value} == {
        name for name, option in options().items() if option.is_flag
    }
    assert documented["--log-format"] == ["\\|".join(LogFormat)]


def test_the_guide_lists_exactly_the_limits_of_the_server_with_their_codes() -> None:
    artifact, file = create_artifact.request_max_body_size, upload_file.request_max_body_size
    imported = import_memories.request_max_body_size
    body = f"{mebibytes(MAX_BODY_BYTES)}; an artifact {mebibytes(artifact)}, a file {mebibytes(file)}, "
    body += f"imported memories {mebibytes(imported)}, a skill {mebibytes(import_skill.request_max_body_size)}, "
    body += f"a delivery to a hook {MAX_HOOK_BODY_BYTES // 1024} KiB"
    minutes = waiting_connections.BODY_TIMEOUT_SECONDS / 60
    time = f"{waiting_connections.BODY_STALL_SECONDS:g} s without a byte, {minutes:g} min in all"
    share, most = waiting_connections.WAITING_SHARE, waiting_connections.MAX_WAITING
    assert (share, waiting_connections.ADDRESS_SHARE) == (4, 2)
    waiting = f"a quarter of the file descriptors, {most:,} at most; half of that per address"
    timeout = f"`{RequestTimeout.code}`"
    assert rows(GUIDE, "what", "at most", "code") == [
        ["request body", body, f"`{BodyTooLarge.code}`"],
        ["JSON nesting", str(MAX_JSON_DEPTH), f"`{TooDeep.code}`"],
        ["values in a JSON body", f"{MAX_JSON_VALUES:,}", f"`{TooLarge.code}`"],
        ["numbers such as `1e300` in a JSON body", f"{MAX_EXTREME_NUMBERS:,}", f"`{TooLarge.code}`"],
        ["time for the head of a request", f"{waiting_connections.HEAD_TIMEOUT_SECONDS:g} s", timeout],
        ["time for the body of a request", time, timeout],
        ["connections without a complete request", waiting, timeout],
        ["URL", f"{MAX_URL_BYTES // 2**10} KiB", f"`{AddressTooLong.code}`"],
        ["headers", f"{MAX_HEADER_BYTES // 2**10} KiB", f"`{HeadersTooLarge.code}`"],
        ["header lines, with trailers", str(MAX_HEADER_LINES), f"`{HeadersTooLarge.code}`"],
        ["open streams per process", f"{StreamLimits().max_streams:,}", f"`{TooManyStreams.code}`"],
    ]


def test_the_guide_lists_exactly_the_loggers() -> None:
    used = {found for module in package_modules() for found in LOGGER.findall(module.read_text())}
    assert set(re.findall(r"`(holdfast\.\w+)`", GUIDE.read_text())) == used


def test_no_other_route_has_a_limit_of_its_own() -> None:
    own = [route for route in ROUTES if isinstance(route.request_max_body_size, int)]
    assert own == [create_artifact, upload_file, deliver_hook, import_memories, import_skill]
