"""The data pipelines: `ingest` writes events to topics, `refine` turns topics into tables, `serve` presents the tables.

`catalog` lists every topic, table and dataset; `demo` runs all of it on one machine.
"""

import logging

from ottla.logs import ESCAPE

logging.getLogger(__name__).addFilter(ESCAPE)
