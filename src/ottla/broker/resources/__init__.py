"""What DescribeConfigs and AlterConfigs know: one file per type of resource, all of them in `table`."""
