"""A process that runs an agent which remembers, and is killed on the way."""

from tests.scenario.agents.killed_process import victim

work = victim(lambda effects: [], lambda interrupt: "approve")
