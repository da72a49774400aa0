"""Keys in, keys out: deduplicated, delayed and backed off, one worker a key."""
