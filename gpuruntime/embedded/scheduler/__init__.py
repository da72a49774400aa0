"""The scheduler: it assigns Pods to nodes, and preempts less important ones."""
