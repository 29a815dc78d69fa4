"""Tools that people write: a command, in any language, that reads JSON and writes JSON."""
