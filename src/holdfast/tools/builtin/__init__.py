"""The tools that every workspace has, one file each."""
