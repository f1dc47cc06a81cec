"""Spark Declarative Pipelines over topics: projects, runs, expectations, and the two pipelines that come along."""
