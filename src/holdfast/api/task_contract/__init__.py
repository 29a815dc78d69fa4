"""The tasks contract over HTTP."""
