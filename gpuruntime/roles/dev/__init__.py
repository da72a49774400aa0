"""The whole product in one process, on the embedded cluster."""
