"""Login, sessions, roles, masking, audit and security headers of the console."""
