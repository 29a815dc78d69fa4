"""How agents reach the web: which addresses they may connect to, what is read there, and where they search."""
