"""What the store costs, beside the floor that the machine allows."""
