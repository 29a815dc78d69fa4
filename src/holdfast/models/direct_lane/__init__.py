"""The direct lane: a model call whose request pydantic-ai builds, and whose bytes we send and decode ourselves."""
