"""A schema registry with the REST API of Confluent Schema Registry. Like Confluent's, it stores schemas in the topic
`_schemas`, in the same format.

`rest` has the routes, `registry` the rules, `store` the topic and its records, `schemas` the parsers and the
compatibility rules of each type of schema, and `cli` the command.
"""

import logging

from ottla.logs import ESCAPE

logging.getLogger("ottla.schema_registry").addFilter(ESCAPE)
