"""Active units made true: the gate, their children, their status."""
