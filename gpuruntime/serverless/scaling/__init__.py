"""The activator: it gives functions the workers that their queues need."""
