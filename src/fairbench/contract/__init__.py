"""Whether an optimizer does what a training relies on, tested on a small task."""

BROKEN = "let a step return: it must neither end nor stop its process, and must not wait"
"""The advice if an optimizer breaks the process of a check."""
