"""The control plane that turns a Kubernetes cluster with GPUs into a GPU cloud."""
