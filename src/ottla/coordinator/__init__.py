"""The group, transaction and share coordinators, which have `CoordinatorRuntime` as their common base."""
