"""The context of a model call: what of a conversation is sent, and how the rest is told."""
