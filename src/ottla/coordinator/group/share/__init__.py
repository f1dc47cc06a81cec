"""Share groups (KIP-932): members of one group can read the same partitions."""
