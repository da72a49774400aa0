"""This room signs and verifies tickets, which let their bearers reach a unit for a while."""
