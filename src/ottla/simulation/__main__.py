"""`python -m ottla.simulation`: run seeds, print their results, and exit with 1 if a promise was broken."""

from __future__ import annotations

import sys

from ottla.simulation.command import main

sys.exit(main())
