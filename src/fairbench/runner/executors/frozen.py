"""Imported last by the process that others are forked from.

Their garbage collectors would else write to all that it has loaded, and each would so get a copy of its own, which
takes half a second.
"""

import atexit
import gc

gc.collect()
gc.freeze()
atexit.register(gc.unfreeze)  # else compiled libraries complain of what was not freed
