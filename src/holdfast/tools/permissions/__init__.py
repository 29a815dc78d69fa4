"""Which calls an agent may make: its rules, what they are about, and what a shell command really does."""
