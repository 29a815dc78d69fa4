"""Adapters of the bus: within a process, and over PostgreSQL."""
