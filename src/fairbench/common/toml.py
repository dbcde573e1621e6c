"""The reader of TOML. Python has it from 3.11 on; a library replaces it before."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
