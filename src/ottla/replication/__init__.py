"""Replication: this broker's replicas of partitions, as leaders and followers."""
