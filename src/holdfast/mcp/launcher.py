"""Launch of stdio MCP servers: their command, sandbox, environment and folders, and remedies if they do not start.

A server runs in a sandbox, in its own folder or in one that its declaration names, both of one space. Its home is a
persistent folder of its own, so that `npx` and `uvx` download a package once; servers share no home, because a package
in it is a program.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.errors import McpServerFailed
from holdfast.domain.idempotency import request_digest
from holdfast.domain.ids import SpaceId
from holdfast.domain.mcp_server import ENV_REFERENCE, McpServer, server_identity
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.working_folder import named_folder, space_folder
from holdfast.ports.sandbox import DEFAULT_PATH, Sandbox, SandboxCommand

MAX_LIFETIME_SECONDS: Final = 365 * 86_400.0
"""Seconds after which a server process is killed in any case."""
MAX_OUTPUT_BYTES: Final = 16 * 1024
"""Bytes kept of its output after it ended; its stderr is kept as it arrives."""

CERTIFICATE_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
NETWORK_VARIABLES: Final = (
    *CERTIFICATE_VARIABLES,
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("NPM_CONFIG_REGISTRY", "npm_config_registry", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_PYTHON_INSTALL_MIRROR"),
)
"""Variables of Holdfast's environment that a server with network access gets: certificates, proxies, registries."""
OFFLINE_VARIABLES: Final = {"NPM_CONFIG_OFFLINE": "true", "UV_OFFLINE": "1"}
"""Without network access, `npx` and `uvx` use their cache or fail at once; otherwise they would retry for a minute."""

_SYSTEM_FOLDERS: Final = frozenset({"usr", "bin", "sbin", "lib", "lib32", "lib64"})
"""Folders that every sandbox shows."""
_CREDENTIALS: Final = re.compile(r"://[^/\s]*@")
_NETWORK_ERROR: Final = re.compile(
    r"\b(?:EAI_AGAIN|ENOTFOUND|ENETUNREACH|ENOTCACHED)\b|only-if-cached|--offline"
    r"|(?i:network is unreachable|name resolution|name or service not known|could not resolve host|dns error"
    r"|network (?:connectivity is|was) disabled)"
)
_MISSING_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '(?P<module>[^']+)'")
_MISSING_FILE: Final = re.compile(r"no such file|not found|cannot find|can\'t open|ENOENT", re.IGNORECASE)
_ABSOLUTE_PATH: Final = re.compile(r"(?<![\w:/.])/[^\s\'\"`:,;()\[\]]+")


class ServerLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and sandboxes of stdio servers."""

    workspace: Path
    data_folder: Path
    """Holdfast's own data; it has a home folder for each server."""
    sandbox: Sandbox
    unconfined: Sandbox
    """For servers whose declaration sets `"sandbox": "off"`."""

    def sandbox_for(self, declared: McpServer) -> Sandbox:
        """Return the sandbox of a server."""
        return self.sandbox if declared.sandbox == "on" else self.unconfined

    def command(self, space: SpaceId, declared: McpServer, environment: Mapping[str, str]) -> SandboxCommand:
        """Return the command of a server; its folders are created if needed."""
        data = self.data_folder if space == DEFAULT_SPACE else self.workspace / space_folder(space)
        home = data / "mcp" / request_digest([space, server_identity(declared)])[:32]
        root = home if declared.cwd is None else self.workspace / named_folder(space, declared.cwd)
        for folder in (home, root):
            self._create(folder, declared)
        own = resolve_variables(declared.env, environment)
        network = OFFLINE_VARIABLES
        if declared.network or declared.sandbox == "off":
            network = network_variables(environment)
        path = own.get("PATH", DEFAULT_PATH)
        program = self._find_program(declared.command or "", f"{path}:{environment.get('PATH', '')}")
        if str(program.parent) not in path.split(":"):  # a script may need the programs beside it, such as `node`
            path = f"{program.parent}:{path}"
        return SandboxCommand(
            argv=[str(program), *map(self._absolute, declared.args)],
            root=root,
            folder=root,
            home=home,
            readable=[
                *map(Path, declared.reads),
                *self._readable([declared.command or "", *declared.args]),
                *program_paths(program),
                *(Path(network[name]) for name in CERTIFICATE_VARIABLES if network.get(name, "").startswith("/")),
            ],
            network=declared.network,
            environment={**network, **own, "PATH": path},
            timeout=MAX_LIFETIME_SECONDS,
            output_limit=MAX_OUTPUT_BYTES,
        )

    def remedy(self, declared: McpServer, stderr: str) -> str | None:
        """Return the change of a declaration that may let its server start, judged by what the server wrote."""
        if declared.url is not None:
            return "check that a server listens at that address, and the `headers` that it expects"
        if (missing := _MISSING_MODULE.search(stderr)) is not None:
            return f"give as `command` the path of a Python that has `{missing['module']}`, such as that of a venv"
        if declared.sandbox == "off":
            return None
        if not declared.network and _NETWORK_ERROR.search(stderr):
            return 'set `"network": true` in its declaration: its sandbox has no network'
        shown = [Path("/usr"), *map(Path, declared.reads)]
        for line in stderr.splitlines():
            for path in map(Path, _ABSOLUTE_PATH.findall(line) if _MISSING_FILE.search(line) else ()):
                if not any(path.is_relative_to(folder) for folder in shown) and path.exists():
                    return f'add `"reads": ["{path}"]` to its declaration: its sandbox does not show that path'
        return None

    def _create(self, folder: Path, declared: McpServer) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise McpServerFailed(f"its folder `{folder}` cannot be created: {exc.strerror}", started=False) from exc
        if folder.resolve() != folder:
            raise McpServerFailed(f"its folder `{declared.cwd}` is outside the workspace", started=False)

    def _find_program(self, command: str, path: str) -> Path:
        """Return the absolute path of a program; a name is looked up in `path`."""
        found = shutil.which(self._absolute(command), path=path)
        if found is None:
            where = "" if "/" in command else f" in `{path.strip(':')}`"
            raise McpServerFailed(
                f"its program `{command}` was not found{where}, or is not executable",
                remedy="install it, or give its absolute path as `command`",
                started=False,
            )
        return Path(os.path.abspath(found))

    def _absolute(self, argument: str) -> str:
        return os.path.normpath(self.workspace / argument) if argument.startswith("./") else argument

    def _readable(self, argv: Sequence[str]) -> list[Path]:
        """Return the folders of the workspace that a server may read: those of the paths in its command."""
        folders = []
        for argument in argv:
            if argument.startswith("./"):
                path = Path(self._absolute(argument))
                if self.workspace not in path.parents or path.is_relative_to(self.data_folder):
                    raise McpServerFailed(
                        f"a server may not read `{argument}`", remedy="choose another path", started=False
                    )
                folders.append(path if path.parent == self.workspace or path.is_dir() else path.parent)
        return folders


def program_paths(program: Path) -> list[Path]:
    """Return the paths that a program outside the system folders needs: its `bin` folder, package and libraries.

    Only folders that hold programs are returned: a program in a home folder does not make that folder readable.
    """
    paths = []
    for file in (program, program.resolve()):
        prefix = file.parent.parent
        if (prefix / "pyvenv.cfg").is_file():
            paths.append(prefix)
        elif "node_modules" in file.parts:
            package = file.parts.index("node_modules") + 1
            paths.append(Path(*file.parts[: package + (2 if file.parts[package].startswith("@") else 1)]))
        elif file.parent.name == "bin":
            paths += [file.parent, *(prefix / "lib").glob("python3*"), *(prefix / "lib").glob("libpython3*")]
        else:
            paths.append(file)
    return [path for path in dict.fromkeys(paths) if path.parts[1] not in _SYSTEM_FOLDERS]


def network_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the certificates, proxies and registries of an environment; a value with credentials is left out."""
    values = {name: environment[name] for name in NETWORK_VARIABLES if name in environment}
    return {name: value for name, value in values.items() if not _CREDENTIALS.search(value)}


def resolve_variables(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return texts with their `${…}` references replaced by the values of the environment variables."""
    for text in texts.values():
        missing = [name for name in ENV_REFERENCE.findall(text) if name not in environment]
        if missing:
            raise McpServerFailed(
                f"there is no environment variable `{missing[0]}`",
                remedy="set it for Holdfast, or remove it from the server's declaration",
                started=False,
            )
    return {name: ENV_REFERENCE.sub(lambda match: environment[match[1]], text) for name, text in texts.items()}
