"""Frozen values of the Kubernetes kinds that we own and of the slices of those that we read."""
