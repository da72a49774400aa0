"""The parts of Kubernetes' own kinds that we read, and the grammars of Kubernetes."""
