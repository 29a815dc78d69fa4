"""Prometheus metrics of a process, for `/metrics`."""
