"""The seams: what the core needs from outside, as Protocols. Each promise in a docstring is one conformance test."""
