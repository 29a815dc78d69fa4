"""The official OpenAI clients, and the agents of the tests."""

from typing import Any, Final

import httpx2
from openai import AsyncOpenAI, OpenAI

from holdfast.domain.content import Json
from tests.api.site import TIMEOUT_SECONDS, Site
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

WEATHER: Final[Json] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASK: Final[list[Json]] = ["ask_user"]
DO: Final[list[Json]] = ["todo_write"]


def fill(workshop: AgentWorkspace) -> AgentWorkspace:
    """Write the agents that complete chats."""
    usage_of_call = {"input_tokens": 7, "output_tokens": 2}
    workshop.agent(say("hello you", chunks=3, usage=usage_of_call))
    rome = calling(call("weather", city="Rome"), say="let me look", usage=usage_of_call)
    workshop.agent(rome, say("it is {$last_tool}", usage=usage_of_call), name="tourist")
    workshop.agent(rome, say("it is {$last_tool}"), name="assistant")
    workshop.agent(say("hello"), name="hello")
    workshop.agent(say("you said {$last_user}"), name="echo")
    workshop.script(say("you said {$last_user}"), agent="echo", after_last="repeat")
    workshop.agent(say("Rome"), say('{"town": "Rome"}'), say('{"city": "Rome"}'), name="structured")
    workshop.agent(*[say("Rome")] * 3, name="unstructured")
    both = calling(call("weather", city="Rome"), call("weather", city="Oslo"))
    workshop.agent(both, say("seen both"), name="traveller")
    written = calling(call("todo_write", items=[{"text": "x"}]), say="I note it")
    workshop.agent(written, say("noted"), name="worker", tools=DO)
    workshop.agent(calling(call("ask_user", question="which?")), say("it is {$last_tool}"), name="asker", tools=ASK)
    passed_on = calling(call("agent_spawn", agent="asker", input="x"))
    workshop.agent(passed_on, say("I hear: {$last_tool}"), name="proxy", tools=["agent_spawn"])
    workshop.agent(written, say("done"), name="guarded", tools=DO, permissions={"ask": ["todo_write"]})
    workshop.agent({"error": {"code": "MODEL_REFUSED", "message": "no"}}, name="failing")
    workshop.agent(say("one moment", stall=True), name="staller")
    workshop.agent(say("no chats"), name="silent", chat={"enabled": False})
    workshop.agent(name="broken", model=7)
    return workshop


def user(text: Json) -> Any:
    """Return a user message."""
    return {"role": "user", "content": text}


def async_client(site: Site) -> AsyncOpenAI:
    """Return the official client."""
    web = httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS)
    return AsyncOpenAI(base_url=f"{site.url}/v1", api_key="none needed", http_client=web)


def sync_client(site: Site) -> OpenAI:
    """Return the official synchronous client; call it in a thread."""
    web = httpx2.Client(trust_env=False, timeout=TIMEOUT_SECONDS)
    return OpenAI(base_url=f"{site.url}/v1", api_key="none needed", http_client=web)
