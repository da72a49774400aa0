"""Reconciler of storages: claim, prepare, holder and file server."""
