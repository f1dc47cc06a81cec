"""Security of the console: users, sessions, roles, masking and the audit log."""
