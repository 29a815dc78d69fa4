"""The context of a model call: which messages are sent, and how older ones are compacted."""
