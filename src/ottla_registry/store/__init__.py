"""The state of the registry: the records of `_schemas`, and what they mean."""
