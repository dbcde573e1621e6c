"""The installed distributions, looked up at import, which reads all of their metadata.

The process that trials are forked from imports it, so that the trials need not.
"""

from importlib import metadata

DISTRIBUTIONS_OF = {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}
"""The names of the distributions, by top-level module."""
