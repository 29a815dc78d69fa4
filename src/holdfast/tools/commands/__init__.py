"""Commands that tools run: in the sandbox, in the working folder of their agent, with live output."""
