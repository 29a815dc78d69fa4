"""What a shell command does, as far as that can be known without running it."""
