"""The resources of DescribeConfigs and AlterConfigs."""
