"""Conversion of bytes into values and back."""
