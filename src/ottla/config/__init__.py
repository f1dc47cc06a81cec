"""One table of options per subject."""
