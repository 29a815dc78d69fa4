"""The agent loop: it runs an agent with a model and tools. It depends on no database."""
