"""Workers over a queue and the one table from outcome to requeue."""
