"""Keeps the results of invocations, and ends those whose deadline has passed."""
