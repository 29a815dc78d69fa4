"""Agents as models of chat completions."""
