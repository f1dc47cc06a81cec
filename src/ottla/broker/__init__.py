"""The broker: its server, request handlers, configs, quotas, security, sessions, monitoring and HTTP pages."""
