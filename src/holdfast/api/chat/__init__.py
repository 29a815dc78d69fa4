"""Chats and sessions over HTTP, in the style of the tasks contract."""
