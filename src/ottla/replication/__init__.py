"""Replication: the partitions of this broker, leaders and followers."""
