"""Functions: accepting invocations, keeping results, and scaling the workers."""
