"""The version of Ottla, stated once."""

__version__ = "0.1.0"
