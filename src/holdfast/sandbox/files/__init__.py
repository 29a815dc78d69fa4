"""Working folders: files beneath a folder, and nothing outside of it."""
