"""Strict reading of human input: nothing is coerced, and all faults are named at once."""
