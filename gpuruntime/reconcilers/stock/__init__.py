"""Reconcilers of stock units and of the pools that create them."""
