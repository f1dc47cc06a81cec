"""The state of the registry, which is stored in the topic `_schemas`."""
