"""The last import of the server that processes are forked from. Each process would otherwise do this work again."""

import atexit
import gc

import fairbench.runner.executors.local  # noqa: F401 - each process needs it to read its job
from fairbench.runner.code_identity import distributions_of

distributions_of()
gc.collect()
gc.freeze()  # otherwise each process would write to every page that its garbage collector visits, and copy it
atexit.register(gc.unfreeze)  # otherwise compiled libraries report leaks
