"""AG-UI 1.0 over HTTP."""
