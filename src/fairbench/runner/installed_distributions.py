"""The distributions that are installed, looked up when this is imported: all of their files are gone through.

The process that others are forked from imports it, and they need not.
"""

from importlib import metadata

DISTRIBUTIONS_OF = {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}
"""Their names, by the top-level module."""
