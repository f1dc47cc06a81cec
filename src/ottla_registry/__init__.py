"""A schema registry with the REST API of Confluent Schema Registry. It stores schemas in the topic `_schemas`, in
the same format.

`rest` has the routes, `registry` the rules, `store` the topic and its records, and `schemas` a module for each type of
schema with its parser and its compatibility rules.
"""

import logging

from ottla.logs import ESCAPE

logging.getLogger("ottla.schema_registry").addFilter(ESCAPE)
