"""`python -m ottla` runs the command `ottla`."""

import sys

from ottla.cli.main import main

sys.exit(main())
