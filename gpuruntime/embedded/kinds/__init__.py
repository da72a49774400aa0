"""The built-in kinds: their values, defaults and checks."""
