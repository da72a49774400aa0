"""Bytes into values and back."""
