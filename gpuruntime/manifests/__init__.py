"""The manifests that install this version of the product on a cluster."""
