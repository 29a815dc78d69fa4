"""A real browser and a real server with the scripted model. Every page fails its test on an error that it logs."""

import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from holdfast.console.shelf import STATIC_FOLDER
from tests.api.server_process import Server, run_server
from tests.console.workspace import write_workspace

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

CHROMIUM: Final = shutil.which("chromium")
CHROMIUM_OPTIONS: Final = [
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP: Final = {"width": 1280, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
TIMEOUT_MS: Final = 60_000
"""After which a page counts as hanging, also on a loaded machine."""


class OpenPage(Protocol):
    """Opens a page of the console."""

    async def __call__(self, url: str, *, cut: bool = False, expected: str = "", **options: Any) -> "Page":
        """Open `url`. With `cut`, failed requests are no problem, nor are messages that match `expected`."""


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator["Browser"]:
    """Yield the browser, or skip the test with the reason."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: `make browser` installs it on Debian")
    if not (STATIC_FOLDER / "index.html").is_file():
        pytest.skip("the console is not built: `make console` builds it with Node 20 or newer")
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield browser
        await browser.close()


@pytest.fixture
async def open_page(browser: "Browser") -> AsyncIterator[OpenPage]:
    """Yield a function that opens a page in a browser profile of its own."""
    problems: list[str] = []
    contexts = []

    async def open_(url: str, *, cut: bool = False, expected: str = "", **options: Any) -> "Page":
        context = await browser.new_context(**{"viewport": DESKTOP, **options})
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        page = await context.new_page()
        origin = "/".join(url.split("/")[:3])

        def on_request(request: Any) -> None:
            if not request.url.startswith((origin, origin.replace("http", "ws"), "blob:", "data:")):
                problems.append(f"a request left the origin: {request.url}")

        def on_failure(request: Any) -> None:
            problem = f"a request left the origin: {request.url}"
            if request.failure == "csp" and problem in problems:  # the policy stopped it before it was sent
                problems.remove(problem)

        def on_console(message: Any) -> None:
            is_network = "Failed to load resource" in message.text or "WebSocket connection" in message.text
            is_expected = (is_network and (cut or "status of 4" in message.text)) or (
                expected and re.search(expected, message.text)
            )
            if message.type == "error" and not is_expected:
                problems.append(message.text)

        page.on("request", on_request)
        page.on("requestfailed", on_failure)
        page.on("console", on_console)
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        await page.goto(url)
        return page

    yield open_
    for context in contexts:
        await context.close()
    assert problems == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server that the tests of a module share."""
    folder: Path = tmp_path_factory.mktemp("console")
    write_workspace(folder / "workspace")
    with run_server(folder, "--quiet") as server:
        yield server
