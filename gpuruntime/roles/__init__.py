"""The composition roots: each role puts rooms together, and nothing else does."""
