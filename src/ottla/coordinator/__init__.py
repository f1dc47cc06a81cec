"""The coordinators of groups, transactions and share partitions, on one runtime."""
