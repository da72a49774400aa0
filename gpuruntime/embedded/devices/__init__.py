"""Devices of the embedded cluster: selectors, the allocator, and the controller of claims."""
