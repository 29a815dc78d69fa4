"""The tasks contract: runs of mode `task` in other words, with other names and another shape of events."""
