"""The slices of Kubernetes' own kinds that we read, and its grammars."""
