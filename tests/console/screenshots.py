"""`make screenshots`: pictures of every screen, in both themes and two sizes.

They show a real server on the agents of `showcase`: a release whose server was killed while the agent wrote.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.async_api import async_playwright

from holdfast.domain.content import Json
from tests.api.server_process import Server, run_server
from tests.architecture.project import ROOT
from tests.console.conftest import CHROMIUM, CHROMIUM_OPTIONS, DESKTOP, PHONE
from tests.console.story import LISTS, tell
from tests.console.workspace import write_workspace

FOLDER: Final = ROOT / "dist" / "screenshots"
RELEASE: Final = (
    "Cut the 0.2 release candidate. Check both backends first, and ask me before anything leaves this machine."
)
QUESTIONS: Final = ("Why do nightly backups lag?", "Schema of the ledger", "Price list from the PDF")


def say(server: Server, agent: str, text: str, *, wait: int = 30, **more: Json) -> Json:
    """Start a run on a new thread, and return it when it has ended or waits."""
    return server.request(f"/api/runs?wait={wait}", {"input": text, "agent_type": agent, **more})


def wait_for_text(server: Server, run: str, text: str) -> None:
    """Wait until an agent has written a text."""
    while text not in "".join(event.get("delta", "") for event in server.log(run) if "TEXT" in event["type"]):
        pass


async def take(server: Server, release: Json, places: dict[str, str]) -> None:
    """Take the pictures, or only those whose names the command has as arguments."""
    wanted = sys.argv[1:]
    thread = f"/console/t/{release['thread_id']}/{release['id']}"
    screens = {"threads": "/console/threads", "thread": thread, "inbox": "/console/inbox"}
    screens |= {"steps": f"{thread}?side=steps", "told": f"{thread}?side=context"}
    screens |= {"context": f"/console/r/{release['id']}/context"}
    screens |= {path.partition("?")[0].replace("/", "-"): f"/console/{path}" for path in LISTS}
    screens |= {name.replace("/", "-"): f"/console/{path}" for name, path in places.items() if name not in screens}
    screens = {name: path for name, path in screens.items() if not wanted or name in wanted}
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        for theme in ("light", "dark"):
            for size, viewport in (("desktop", {**DESKTOP, "height": 960}), ("phone", PHONE)):
                options: dict[str, Any] = {"viewport": viewport, "color_scheme": theme, "device_scale_factor": 1.25}
                context = await chromium.new_context(**options)
                for name, path in screens.items():
                    page = await context.new_page()
                    await page.goto(server.url + path)
                    await page.wait_for_selector("main h1")
                    await page.wait_for_selector("footer .is-live", state="attached")
                    await page.wait_for_selector(".loading", state="detached")
                    if size == "desktop":
                        await page.wait_for_selector("footer :text('today')")
                    await page.wait_for_timeout(500)  # what moves comes to rest
                    await page.screenshot(path=FOLDER / f"{name}-{size}-{theme}.png")
                    await page.close()
                await context.close()
        await chromium.close()


def main() -> None:
    """Play the release, kill its server once, and take the pictures."""
    if CHROMIUM is None:
        sys.exit("chromium is not installed: `make browser` installs it on Debian")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_workspace(folder / "workspace")
        with run_server(folder, "--quiet") as first:
            first.request("/settings", {"default_agent": "releaser"}, method="PATCH")
            say(first, "failing", "Translate the guides to ja")
            for question in QUESTIONS:
                say(first, "guide", question)
            thread: Json = {"title": "Cut the 0.2 release candidate"}
            release = say(first, "releaser", RELEASE, wait=0, thread=thread)
            wait_for_text(first, release["id"], "Of 214")
            first.kill()
        with run_server(folder, "--quiet") as second:
            second.request(f"/api/runs/{release['id']}?wait=30")
            say(second, "asker", "Supplier invoices, November")
            asyncio.run(take(second, release, tell(second)))
    print(f"the pictures are in {FOLDER.relative_to(ROOT)}")  # noqa: T201 - the result of the command


if __name__ == "__main__":
    main()
