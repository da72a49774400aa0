"""Reconciler of active units: the start gate, the children and the status."""
