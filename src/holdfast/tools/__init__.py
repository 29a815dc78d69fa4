"""What agents can do: tools, how they are described, checked and bounded."""
