"""The version of Ottla."""

__version__ = "0.1.0"
