"""Spark Declarative Pipelines over topics: projects, their templates, runs, and helpers for definitions."""
