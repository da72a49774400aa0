"""Children of units and storages: ownership, drift, network policies and Pod security."""
