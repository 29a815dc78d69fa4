"""Live streams over HTTP: small ASGI responses whose rendered bytes all subscribers share."""
