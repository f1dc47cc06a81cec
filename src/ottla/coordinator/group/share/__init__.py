"""Share groups (KIP-932): members of one group read the same partitions."""
