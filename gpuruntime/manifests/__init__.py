"""What is applied to a cluster to install the product, as this version has it."""
