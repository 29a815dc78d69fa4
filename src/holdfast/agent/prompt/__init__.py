"""The system prompt: its texts, and how they are put together."""
