"""Schemas of built-in and custom kinds: pruning, defaults and validation."""
