"""Tools of agents: their interface, registry, middleware and permissions, and the built-in tools."""
