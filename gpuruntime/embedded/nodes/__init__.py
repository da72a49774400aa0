"""Simulated nodes: a kubelet whose containers only follow the clock."""
