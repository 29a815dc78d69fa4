"""A workspace for each test."""

from tests.scenario.agents.conftest import clock, workshop

__all__ = ["clock", "workshop"]
