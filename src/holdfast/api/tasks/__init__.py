"""The tasks contract: runs of mode `task`, with its own names and events."""
