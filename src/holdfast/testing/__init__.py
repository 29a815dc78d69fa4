"""What tests of Holdfast, and of programs built on it, stand on."""
