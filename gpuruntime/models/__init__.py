"""Frozen values of our own Kubernetes kinds, and of the parts that we read of other kinds."""
