"""Simulated nodes: a kubelet whose containers only pass the time."""
