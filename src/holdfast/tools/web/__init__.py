"""Access to the web: allowed addresses, page text, and search engines."""
