"""Use cases of people and clients: start, respond to, steer, cancel and retry runs, and query their records."""
