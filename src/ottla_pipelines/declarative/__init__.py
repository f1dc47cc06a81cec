"""Spark Declarative Pipelines over topics: projects, runs, expectations, and two templates of pipelines."""
