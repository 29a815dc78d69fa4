"""What people and clients can do: start runs, answer them, steer them, end them, try them again."""
