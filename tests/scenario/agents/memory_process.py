"""A process that runs an agent which remembers, and is killed on the way."""

import asyncio

import holdfast.memory.tail  # noqa: F401 - with the tables below: else each killed process would load it on first use
from holdfast.memory.static_vectors import static_vectors
from tests.scenario.agents.killed_process import victim

asyncio.run(static_vectors().embed(["text"]))
work = victim(lambda effects: [], lambda interrupt: "approve")
