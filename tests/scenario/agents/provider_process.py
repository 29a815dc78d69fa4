"""A process that runs an agent on a model provider, and is killed on the way."""

import aiohttp  # noqa: F401 - as below
import pydantic_ai.models.openai  # noqa: F401 - as below

import holdfast.models.provider_clients  # noqa: F401 - imported before the first process is forked
from tests.scenario.agents.killed_process import victim

work = victim(lambda effects: [], lambda interrupt: "approve")
