"""The invariants of the product, as pure functions over a snapshot of its objects."""
