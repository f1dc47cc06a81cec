"""The REST API: a module for each group of resources, and the application."""
