"""The configuration of every role, read once from file, flags and environment."""
