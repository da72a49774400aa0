"""Declarations of functions, and the Secrets of their workers."""
