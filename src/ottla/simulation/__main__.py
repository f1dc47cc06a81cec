"""`python -m ottla.simulation`: runs seeds, reports broken promises, and exits with 1 if there are any."""

from __future__ import annotations

import sys

from ottla.simulation.command import main

sys.exit(main())
