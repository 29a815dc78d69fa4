"""Functions with `@tool` in `tools/<name>.py`: loaded by name, and run in the sandbox or in the process."""

import os
from typing import Final

import pytest

from holdfast.bootstrap.doctor.checks import diagnose
from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.unit.sandbox.confined import need_sandbox

STOCKS: Final = '''
import os
from dataclasses import dataclass
from holdfast import tool

@dataclass
class Order:
    symbol: str
    number: int

@tool(read_only=True)
def price(symbol: str) -> float:
    """Return the price of a stock."""
    print("looking it up")
    if symbol != "ACME":
        raise LookupError(f"no stock {symbol}")
    return 12.5

@tool(idempotent=True, name="buy_stock")
async def buy(order: Order) -> dict[str, object]:
    """Buy stocks."""
    return {"bought": order.number, "pid": os.getpid(), "key": os.environ.get("HOLDFAST_CALL_KEY")}
'''


@pytest.fixture(scope="module", autouse=True)
async def sandboxed() -> None:
    await need_sandbox()


async def run_calls(workspace: AgentWorkspace, *calls: Json) -> list[str]:
    """Run an agent that makes these calls; return their results."""
    workspace.agent(*(calling(each) for each in calls), say("done"), tools=["price", "buy_stock"])
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert run.status is RunStatus.COMPLETED, run.error
        messages = await runtime.store.messages.of_run(run.space_id, run.id)
    return [str(message.content) for message in messages if message.role == "tool"]


async def test_functions_of_a_file_run_in_the_sandbox(workspace: AgentWorkspace) -> None:
    workspace.write("tools/stocks.py", STOCKS)
    first, failed, bought = await run_calls(
        workspace,
        call("price", symbol="ACME"),
        call("price", symbol="NONE"),
        call("buy_stock", order={"symbol": "ACME", "number": 2}),
    )
    assert first == "12.5"
    assert "LookupError: no stock NONE" in failed
    assert '"bought":2' in bought and '"key":"run_' in bought
    assert f'"pid":{os.getpid()}' not in bought


async def test_the_settings_can_run_them_in_the_process(workspace: AgentWorkspace) -> None:
    workspace.write("tools/stocks.py", STOCKS)
    workspace.write("settings.json", {"function_tools": "in_process"})
    (bought,) = await run_calls(workspace, call("buy_stock", order={"symbol": "ACME", "number": 2}))
    assert f'"pid":{os.getpid()}' in bought


async def test_arguments_are_checked_against_the_hints(workspace: AgentWorkspace) -> None:
    workspace.write("tools/stocks.py", STOCKS)
    (refused,) = await run_calls(workspace, call("price", symbol=3))
    assert "`symbol`: it must be string" in refused


async def test_rules_may_name_functions(workspace: AgentWorkspace) -> None:
    workspace.write("tools/stocks.py", STOCKS)
    workspace.agent(
        calling(call("price", symbol="ACME")), say("{$last_tool}"), tools=["price"], permissions={"deny": ["price"]}
    )
    async with workspace.open() as runtime:
        assert "denies this call" in str((await runtime.run_to_end()).output)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nothing_of_the_kind", "ModuleNotFoundError"),
        ("x = 1", "it has no function with `@holdfast.tool`"),
        ("def broken(:", "SyntaxError"),
        (
            "from holdfast import ToolContext, tool\n@tool\ndef price(call: ToolContext) -> int:\n    '''x'''",
            "takes a `ToolContext`",
        ),
        ("from holdfast import tool\n@tool\ndef bash() -> int:\n    '''x'''", "a tool `bash` exists already"),
    ],
)
async def test_a_file_that_cannot_be_used_is_a_tool_that_says_why(
    workspace: AgentWorkspace, source: str, reason: str
) -> None:
    workspace.write("tools/price.py", source)
    workspace.agent(calling(call("price")), say("{$last_tool}"), tools=["price"])
    async with workspace.open() as runtime:
        assert reason in str((await runtime.run_to_end()).output)
    findings = [finding for finding in await diagnose(workspace.folder) if finding.about == "tools"]
    assert [reason in finding.message for finding in findings] == [True]


async def test_the_doctor_lists_the_functions(workspace: AgentWorkspace) -> None:
    workspace.write("tools/stocks.py", STOCKS)
    await run_calls(workspace)
    found = [finding.message for finding in await diagnose(workspace.folder) if finding.about == "tools"]
    assert found == ["these functions load: price, buy_stock"]
