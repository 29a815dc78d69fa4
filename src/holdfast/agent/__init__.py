"""The agent: what a run does with a model and tools. It knows no database."""
