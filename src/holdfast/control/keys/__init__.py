"""Who may come in, and what they may: API keys, and who asks."""
