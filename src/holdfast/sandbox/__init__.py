"""What tools run in: processes that die with their worker."""
