"""A workspace for each test."""

from tests.scenario.agents.conftest import clock, workspace

__all__ = ["clock", "workspace"]
