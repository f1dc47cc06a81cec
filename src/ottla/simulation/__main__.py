"""`python -m ottla.simulation`: runs seeds, prints their results, and exits with 1 if a promise was broken."""

from __future__ import annotations

import sys

from ottla.simulation.command import main

sys.exit(main())
