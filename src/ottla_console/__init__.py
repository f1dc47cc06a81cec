"""The web console of a cluster, and `ottla top`. Both use the asynchronous clients (`ottla.aio`).

`cluster` collects the data that pages show, `security` has login, roles and audit, `pages` has a module for each
subject, and `web` has the parts that pages share. The server renders the pages. Except the live tail, they also work
without JavaScript.
"""

import logging

from ottla.logs import ESCAPE

for _name in ("ottla.console", "ottla.console.audit"):
    logging.getLogger(_name).addFilter(ESCAPE)
