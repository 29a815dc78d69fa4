"""Permission rules of agents: parsing, checking and deciding."""
