"""Live streams over HTTP: small ASGI responses that send bytes which all their readers share."""
