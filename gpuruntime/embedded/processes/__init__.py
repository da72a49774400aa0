"""Pods that run as processes of this machine."""
