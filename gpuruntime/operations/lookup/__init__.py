"""Reads of the use cases: caches, their indexes, and consistent reads."""
