"""Functions: what callers invoke, and the workers that are there when they do."""
