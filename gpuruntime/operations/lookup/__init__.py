"""What the use cases read: caches, their indexes, and consistent reads."""
