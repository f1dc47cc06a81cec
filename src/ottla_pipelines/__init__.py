"""The data pipelines: events into topics (`ingest`), topics into tables (`refine`), tables to people (`serve`).

`catalog` lists every topic, table and dataset; `demo` runs all of it on one machine.
"""

import logging

from ottla.logs import ESCAPE

logging.getLogger(__name__).addFilter(ESCAPE)
