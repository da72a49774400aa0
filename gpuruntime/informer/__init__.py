"""Mirrors of Kubernetes collections: list, watch, resume, relist."""
