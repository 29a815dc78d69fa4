"""What `holdfast doctor` looks at, one module per part of a system."""
