"""The embedded cluster: an API server, controllers, a scheduler and nodes in one process."""
