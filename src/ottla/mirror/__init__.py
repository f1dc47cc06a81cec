"""Mirroring between clusters: Kafka's MirrorMaker 2 (KIP-382) as one process, without Kafka Connect."""
