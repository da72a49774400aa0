"""Work queues: deduplicated keys with delays and back-off, each for one worker at a time."""
