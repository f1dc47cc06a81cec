"""The group coordinator: members, assignments and committed offsets."""
