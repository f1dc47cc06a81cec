"""Groups of the classic protocol (JoinGroup, SyncGroup)."""
