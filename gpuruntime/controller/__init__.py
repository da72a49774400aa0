"""Controllers: workers over a queue, and the table from outcome to requeue."""
