"""The share consumer (KIP-932): records of a share group, acknowledged one by one."""
