"""One WebSocket for each client: what it follows, what it offers, and what it is asked to do."""
