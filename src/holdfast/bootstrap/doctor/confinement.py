"""The sandbox: whether commands of agents are kept within bounds here. It is tried, not believed."""

from pathlib import Path

from holdfast.bootstrap.doctor.finding import Finding, failure, warning, well
from holdfast.sandbox.detection import RefusingSandbox, detect_sandbox
from holdfast.sandbox.processes import open_processes
from holdfast.workspace.settings import Settings


async def look_at_sandbox(settings: Settings, *, needed: bool) -> Finding:
    """Return whether commands can be run; where nobody needs that, a sandbox that is missing is no failure."""
    if settings.sandbox == "off":
        message = 'it is turned off (`"sandbox": "off"`): commands have all rights of the server'
        return warning("sandbox", message, remedy="take that out of `settings.json`, unless you meant it")
    async with open_processes() as processes:
        sandbox = await detect_sandbox(processes, readable=tuple(map(Path, settings.sandbox_reads)))
    if not isinstance(sandbox, RefusingSandbox):
        return well("sandbox", "bubblewrap keeps commands within bounds")
    message, _, remedy = sandbox.reason.partition(": ")
    return (failure if needed else warning)("sandbox", message, remedy=remedy)
