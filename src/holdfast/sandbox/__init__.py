"""Processes and sandboxes for tools: no command outlives its worker."""
