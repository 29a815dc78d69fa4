"""Tools of MCP servers: processes that live as long as they are needed, and addresses."""
