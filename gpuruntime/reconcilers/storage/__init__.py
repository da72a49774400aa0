"""Storages made true: claim, prepare, holder and file server."""
