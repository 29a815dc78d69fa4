"""The ASGI middleware that serves the files of the console, in front of the API.

The files are built from `console/` of the repository, and are part of the wheel. They are read once, at the start. They
show nothing of any space, so they need no key; everything that the console shows comes from the API.
"""

import mimetypes
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

STATIC_FOLDER: Final = Path(__file__).parent / "static"
CONSOLE_PATH: Final = "/console"
CONTENT_SECURITY_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
"""No script or style but the console's own, no other server, no page around it, and no HTML made from text."""
_ASSETS: Final = "assets/"
"""The folder of the files whose names contain a hash of their content."""
_INDEX: Final = "index.html"
_ENCODINGS: Final = {"br": ".br", "gzip": ".gz"}
"""The encodings that the build makes beside each file, best first."""
_PAGE_HEADERS: Final[Sequence[tuple[bytes, bytes]]] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NOT_BUILT: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The console is not built · Holdfast</title>
<h1>The console is not built</h1>
<p>The server runs, and its API works. This copy of Holdfast has no console because it was installed from source
without Node.</p>
<p>Install Node 20 or newer, run <code>make console</code> in the repository, and start the server again. The wheel
contains the console and needs no Node.</p>
<p><a href="/openapi.json">The API as OpenAPI</a></p>
</html>
"""


class _File(NamedTuple):
    """A file, ready to send."""

    bodies: Mapping[str, bytes]
    """The content by encoding; `identity` is always there."""
    media_type: bytes
    etag: bytes
    immutable: bool


class ConsoleShelf:
    """Serves the console below `/console`, and passes every other request on."""

    def __init__(self, app: AsgiApp, *, folder: Path = STATIC_FOLDER) -> None:
        self._app = app
        self._files = dict(_read_files(folder))
        index = self._files.pop(_INDEX, None)
        self._is_built = index is not None
        self._index = index or _to_file(_INDEX, {"identity": _NOT_BUILT.encode()})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a file, redirect a browser from `/`, or call the app."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            path: str = scope["path"]
            if path == "/" and "text/html" in _header(scope, b"accept"):
                scope["path_template"] = "/"
                await _send(send, 307, [(b"location", CONSOLE_PATH.encode()), (b"cache-control", b"no-cache")])
                return
            if path == CONSOLE_PATH or path.startswith(CONSOLE_PATH + "/"):
                scope["path_template"] = CONSOLE_PATH
                await self._serve(path[len(CONSOLE_PATH) + 1 :], scope, send)
                return
        await self._app(scope, receive, send)

    async def _serve(self, name: str, scope: Any, send: Any) -> None:
        """Send the file of that name; any other path is a screen of the app, which `index.html` shows."""
        file = self._files.get(name)
        if file is None and name.startswith(_ASSETS):
            # A page of an older version asks for a file that is gone: it must not get a page in place of a script.
            await _send(send, 404, [(b"content-type", b"text/plain")], b"this file is of another version: reload\n")
            return
        file = file or self._index
        encoding = _best_encoding(_header(scope, b"accept-encoding"), file.bodies)
        headers: Headers = [
            *_PAGE_HEADERS,
            (b"content-type", file.media_type),
            (b"cache-control", b"public, max-age=31536000, immutable" if file.immutable else b"no-cache"),
            (b"etag", file.etag),
            (b"vary", b"Accept-Encoding"),
        ]
        if _header(scope, b"if-none-match").encode("latin-1") == file.etag:
            await _send(send, 304, headers)
            return
        if encoding != "identity":
            headers.append((b"content-encoding", encoding.encode()))
        is_missing = file is self._index and not self._is_built
        await _send(send, 503 if is_missing else 200, headers, file.bodies[encoding])


async def _send(send: Any, status: int, headers: Headers, body: bytes = b"") -> None:
    length = [] if status == 304 else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})


def _read_files(folder: Path) -> Iterator[tuple[str, _File]]:
    """Yield the built files by their path, each with its encodings."""
    if not (folder / _INDEX).is_file():
        return
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in _ENCODINGS.values():
            encoded = {name: path.with_name(path.name + suffix) for name, suffix in _ENCODINGS.items()}
            bodies = {name: each.read_bytes() for name, each in encoded.items() if each.is_file()}
            name = path.relative_to(folder).as_posix()
            yield name, _to_file(name, {**bodies, "identity": path.read_bytes()})


def _to_file(name: str, bodies: Mapping[str, bytes]) -> _File:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    charset = "; charset=utf-8" if media_type.startswith("text/") else ""
    digest = sha256(bodies["identity"]).hexdigest()[:32]
    return _File(bodies, f"{media_type}{charset}".encode(), f'"{digest}"'.encode(), name.startswith(_ASSETS))


def _best_encoding(accepted: str, bodies: Mapping[str, bytes]) -> str:
    names = {
        part.partition(";")[0].strip() for part in accepted.split(",") if not part.replace(" ", "").endswith("q=0")
    }
    return next((name for name in _ENCODINGS if name in names and name in bodies), "identity")


def _header(scope: Any, name: bytes) -> str:
    return next((value.decode("latin-1") for each, value in scope["headers"] if each == name), "")
