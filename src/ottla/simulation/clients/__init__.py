"""Clients of a simulation besides those in `workloads`: producers with the retry rules of other clients, probes,
members of a share group, and workloads that change topics, ACLs and quotas.
"""
