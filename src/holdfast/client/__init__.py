"""The Python API of Holdfast: its Protocols, and the clients that implement them over HTTP."""
