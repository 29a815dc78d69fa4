"""The command line. Data goes to stdout, words to stderr; what is heavy is imported by the command that needs it."""
