"""Runs of openai-agents, in an environment of its own, for a comparison with ours: not a module of the benchmarks.

`python provider_peer.py URL DATABASE` reads lines such as
`{"kind": "text", "chunks": 20, "clients": 16, "streamed": false, "session": true, "seconds": 1}`, and answers each with
the CPU milliseconds per run. With `session` it keeps each conversation in its `SQLiteSession`, and otherwise nowhere.
"""

import asyncio
import json
import sys
import time
import uuid
from typing import Any

from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, function_tool, set_tracing_disabled  # type: ignore[import-not-found]  # not in our environment
from openai import AsyncOpenAI

PROMPT = "word " * 42


@function_tool  # type: ignore[untyped-decorator]  # unknown, as its module is
def look() -> str:
    """Look around."""
    return "nothing"


def _agent(url: str, kind: str, chunks: int) -> Any:
    client = AsyncOpenAI(base_url=f"{url}/{kind}/{chunks}/v1", api_key="none", max_retries=0)
    model = OpenAIResponsesModel(model="gpt-5", openai_client=client)
    return Agent(name="default", instructions="Answer the user.", model=model, tools=[look])


async def _run(agent: Any, *, streamed: bool, database: str | None) -> None:
    session = None if database is None else SQLiteSession(uuid.uuid4().hex, database)
    if not streamed:
        await Runner.run(agent, PROMPT, session=session)
    else:
        async for _ in Runner.run_streamed(agent, PROMPT, session=session).stream_events():
            pass
    if session is not None:
        session.close()


async def _measure(agent: Any, *, clients: int, seconds: float, **options: Any) -> float:
    await asyncio.gather(*(_run(agent, **options) for _ in range(clients)))
    until, used = time.perf_counter() + seconds, time.process_time()

    async def repeat() -> int:
        done = 0
        while time.perf_counter() < until:
            await _run(agent, **options)
            done += 1
        return done

    done = sum(await asyncio.gather(*(repeat() for _ in range(clients))))
    return (time.process_time() - used) * 1000 / done


async def main(url: str, database: str) -> None:
    """Answer the lines of standard input."""
    set_tracing_disabled(True)
    agents: dict[tuple[str, int], Any] = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        key = (order["kind"], order["chunks"])
        if key not in agents:
            agents[key] = _agent(url, *key)
        cost = await _measure(
            agents[key],
            clients=order["clients"],
            seconds=order["seconds"],
            streamed=order["streamed"],
            database=database if order["session"] else None,
        )
        sys.stdout.write(f"{cost}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
