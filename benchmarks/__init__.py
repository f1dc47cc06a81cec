"""Measures: Ottla and its peer in one run on one machine. Figures that are not from one run are not compared."""
