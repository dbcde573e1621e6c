"""Makes the executor of a study that runs on Ray. It sets the variables that Ray reads on import, then imports Ray."""

import os
import secrets
from collections.abc import Sequence

from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.executor import Executor
from fairbench.runner.observers import Observer

PRIVATE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
"""Variables with which Ray's own cluster of a study admits no other machine and, from Ray 2.52 on, no other user.

With the first one, also on Linux, this machine is 127.0.0.1, and the cluster listens there alone.
"""


def executor_of_study(options: RunOptions, observer: Observer, preload: Sequence[str], limit: float) -> Executor:
    """The executor on the cluster that the options name. A call of it may take `limit` seconds."""
    if options.ray == "local":
        os.environ |= PRIVATE
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)

    from fairbench.runner.executors.ray.executor import RayExecutor

    return RayExecutor(options, observer, preload, limit)
