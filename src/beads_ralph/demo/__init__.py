"""The demonstration: a sample plan worked through in a scratch repository."""
