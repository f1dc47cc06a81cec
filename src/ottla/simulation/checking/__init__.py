"""Checks of a run that need its state: the controller's writes, the files of logs, and resources that are not
released.
"""
