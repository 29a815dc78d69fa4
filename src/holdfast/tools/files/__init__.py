"""What the file tools share."""
