"""The composition roots: only roles put rooms together."""
