"""The native routes, by subject."""
