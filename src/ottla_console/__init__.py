"""The web console of a cluster, and `ottla top`: an application on top of the asynchronous clients.

`cluster` collects what pages show, `security` decides who may do it, `pages` has a module per subject, `web` is what
pages have in common. Pages are rendered by the server; they can be read without JavaScript.
"""

import logging

from ottla.logs import ESCAPE

for _name in ("ottla.console", "ottla.console.audit"):
    logging.getLogger(_name).addFilter(ESCAPE)
