"""The broker's listeners and connections."""
