"""Tools of MCP servers, which run as processes on demand or are reached over HTTP."""
