"""The group, transaction and share coordinators, all of which run on one `CoordinatorRuntime`."""
