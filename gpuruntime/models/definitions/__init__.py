"""The CustomResourceDefinitions of our kinds: schemas, patterns and CEL rules."""
