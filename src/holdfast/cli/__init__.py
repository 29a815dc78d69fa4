"""The command line. Data goes to stdout, messages to stderr; each command imports the heavy modules that it needs."""
