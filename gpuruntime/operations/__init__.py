"""The use cases on units, stock and pools: validate, replay, claim, create, release, delete."""
