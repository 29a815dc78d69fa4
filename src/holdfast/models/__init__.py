"""Adapters of the `Model` port: a scripted model, and the providers that pydantic-ai speaks to, imported when used."""
