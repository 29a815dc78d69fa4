"""The HTTP API: routes parse, call one use case of `control`, and render."""
