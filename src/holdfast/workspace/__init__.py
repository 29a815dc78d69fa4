"""A workspace: a folder with the agents, tools, skills and settings of a project."""
