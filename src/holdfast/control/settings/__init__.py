"""The settings in the hands of those who know the contract: shown without secrets, and changed key by key."""
