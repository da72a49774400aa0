"""What the manager does for functions: declarations, and workers' Secrets."""
