"""Static analysis of shell commands: which programs run and which files are opened."""
