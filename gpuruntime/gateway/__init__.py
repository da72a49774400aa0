"""The gateway lets bearers of tickets reach running units, and holds no state but memory."""
