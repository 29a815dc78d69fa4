"""The examples in the guides of reminders, daemons, schedules and webhooks work as written."""

import asyncio
import re
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from holdfast.domain.ids import DeliveryId
from holdfast.domain.webhook import DeliveryClaim, signature_headers
from tests.api.site import Site, serve
from tests.architecture.project import ROOT
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, say

GUIDES: Final = ROOT / "docs" / "guides"


def blocks(guide: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (GUIDES / guide).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("guide", ["reminders.md", "schedules.md", "webhooks.md"])
async def test_every_request_of_a_guide_makes_what_it_says(tmp_path: Path, guide: str) -> None:
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("hello"), name="hello")
    async with serve(workshop) as site:
        requests = blocks(guide, "bash")
        assert requests
        for request in requests:
            made = await _run(site, request)
            assert "error" not in made and made["id"], made


async def test_the_daemon_of_the_guide_runs_its_heartbeat(tmp_path: Path) -> None:
    (config,) = blocks("daemons.md", "json")
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workshop.agent(say("all is well"), name="monitor")
    workshop.write("agents/monitor/agent.json", config)
    workshop.write("agents/monitor/heartbeats/monitor.md", "Check the queue.")
    async with serve(workshop) as site:
        trigger, show = blocks("daemons.md", "bash")
        fired = await _run(site, trigger)
        assert (fired["outcome"], fired["cause"]) == ("fired", "manual"), fired
        run = await site.floor.wait_until_ended(await site.store.runs.get(SPACE, fired["run_id"]))
        (prompt,) = [str(each.content) for each in await site.floor.messages(run) if each.role == "user"]
        daemon = await _run(site, show)
    assert (run.mode, run.output, run.tags) == ("daemon", "all is well", [f"daemon:{fired['schedule_id']}"])
    assert prompt == f"Schedule `monitor/monitor` (manual), due at {fired['due_at']}.\n\nCheck the queue."
    assert (daemon["state"], daemon["firings"][0]["id"]) == ("running", fired["id"])
    assert daemon["heartbeats"][0]["timezone"] == "Europe/Berlin"


async def _run(site: Site, request: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", request.replace("http://127.0.0.1:5050", site.url), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    made: dict[str, Any] = msgspec.json.decode(output)
    return made


def test_the_receiver_of_the_guide_recognises_a_genuine_delivery() -> None:
    (code,) = blocks("webhooks.md", "python")
    names: dict[str, Any] = {}
    exec(compile(code, "webhooks.md", "exec"), names)
    claim = DeliveryClaim(
        key=1, number=1, webhook_key=1, id=DeliveryId("msg_1"), url="https://x", secret="whsec_c2VjcmV0", body='{"a":1}'
    )
    headers = signature_headers(claim, now=1_769_860_800_000)  # type: ignore[arg-type]
    assert names["is_genuine"](claim.secret, headers, b'{"a":1}')
    assert not names["is_genuine"](claim.secret, headers, b'{"a":2}')
