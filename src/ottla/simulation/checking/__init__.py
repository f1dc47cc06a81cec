"""Checks of a run that need its state: the partition states that controllers write, the files of logs, the segments of
tiered topics, and resources that are not released.
"""
