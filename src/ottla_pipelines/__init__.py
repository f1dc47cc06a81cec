"""The data pipelines of `ottla demo` and `ottla pipeline`.

`ingest` writes events to topics, `refine` computes tables from topics, `serve` presents the tables. `catalog` defines
all topics, tables and datasets, `demo` runs everything on one machine, and `declarative` has Spark Declarative
Pipelines.
"""

import logging

from ottla.logs import ESCAPE

logging.getLogger(__name__).addFilter(ESCAPE)
