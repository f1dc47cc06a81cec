"""Clients of a simulation besides those in `workloads`: producers with the retry rules of other clients, probes,
single transactions, members of a share group, and workloads that change topics, ACLs and quotas.
"""
