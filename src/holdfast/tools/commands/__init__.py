"""Commands that tools run: in the working folder of their agent, within its rights, with their output shown."""
