"""Interfaces of the core to its adapters, as Protocols. Each promise in a docstring is one conformance test."""
