"""Dynamic configs of a broker, and what DescribeConfigs and AlterConfigs read and write."""
