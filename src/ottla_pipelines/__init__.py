"""The data pipelines of `ottla demo`, `ottla pipeline` and `ottla capture`.

In the demo, `ingest` writes events to topics, `refine` computes tables from topics, and `serve` presents the tables.
`catalog` defines the demo's topics, tables and datasets, and `demo` runs everything on one machine. `declarative` has
Spark Declarative Pipelines, and `capture` sends the changes of PostgreSQL tables to topics.
"""

import logging

from ottla.logs import ESCAPE

logging.getLogger(__name__).addFilter(ESCAPE)
