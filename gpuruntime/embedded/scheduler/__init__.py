"""The scheduler: which node takes which Pod, and who makes way."""
