"""Chats and sessions, in the style of the tasks contract."""
