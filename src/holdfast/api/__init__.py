"""The HTTP API: a route parses the request, calls one use case or port, and renders the result."""
