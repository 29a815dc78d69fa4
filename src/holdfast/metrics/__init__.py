"""What a process counts of its own work, for `/metrics`."""
