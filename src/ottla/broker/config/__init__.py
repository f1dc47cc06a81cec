"""Dynamic configs of the broker, and the resources of DescribeConfigs and AlterConfigs."""
