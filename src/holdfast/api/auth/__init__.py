"""Who asks, and what they may: the door that every route is behind."""
