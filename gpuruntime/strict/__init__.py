"""Human input into values: no coercion, and every fault at once, named by its path."""
