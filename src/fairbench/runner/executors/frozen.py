"""Imported last by the process that trials are forked from.

Otherwise the garbage collector of each child would write to every loaded page, and copy-on-write would be lost: half a
second per trial.
"""

import atexit
import gc

gc.collect()
gc.freeze()
atexit.register(gc.unfreeze)  # otherwise compiled libraries report leaks
