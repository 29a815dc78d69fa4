"""Helpers for tests of Holdfast and of programs built on it."""
