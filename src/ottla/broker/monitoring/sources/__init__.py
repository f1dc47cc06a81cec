"""The sources of the metrics' values: functions of one reading, a module per subject."""
