"""The activity of units, as the leader reads it from the gateway's replicas."""
