"""A workspace: the folder in which people keep their agents, tools, skills and settings."""
