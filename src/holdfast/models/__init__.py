"""Adapters of the `Model` port: a scripted model, and the providers of pydantic-ai, imported on first use."""
