"""The connection to a Ray cluster, and the import of Ray."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.installation import how_to_install

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # the user did not agree to be counted
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # otherwise `uv run` builds an environment for every worker
os.environ.setdefault("RAY_worker_niceness", "0")  # as without Ray; its default of 15 starves trials on a busy machine

try:
    import ray
    import ray.exceptions
    import ray.util.scheduling_strategies
except ImportError as error:
    raise UsageError(f"--ray needs Ray, which is missing ({error}); {how_to_install('ray')}") from None

__all__ = ["await_head", "connected", "ray"]
ADDRESSES = "give HOST:PORT as `ray start --head` printed it, auto on a node of a cluster, or nothing to start one here"
OFFLINE = "HF_HUB_OFFLINE"
"""The variable that forbids the use of the network; trials on all nodes have it as the driver does."""
ANSWER = 10.0
"""Seconds in which a connection to an address must succeed."""
HEAD_ANSWER = 30.0
"""Seconds in which a lost head must answer again; after 60, Ray ends this process with its own message."""
LOCAL = {"include_dashboard": False, "object_store_memory": 100_000_000}
"""A cluster on this machine, which no other machine can join: with little storage, since records are small."""


def check_address(address: str) -> None:
    """Raise `UsageError` unless an address is HOST:PORT and accepts connections. Ray itself takes minutes to fail."""
    if address in ("local", "auto"):
        return  # Ray finds or starts the cluster itself
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UsageError(f"--ray {address}: not an address; {ADDRESSES}")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--ray {address}: no connection ({error}); {ADDRESSES}") from error


def await_head(address: str) -> None:
    """Wait until the head of the cluster answers, since it may be restarting.

    Raises `UsageError` after HEAD_ANSWER seconds.
    """
    until = time.monotonic() + HEAD_ANSWER
    while True:
        try:
            return check_address(address)
        except UsageError:
            if time.monotonic() > until:
                raise UsageError(
                    f"--ray {address}: the head of the cluster has not answered for {HEAD_ANSWER:.0f} s; "
                    "all records are kept, and the same command resumes on a cluster with a head"
                ) from None
        time.sleep(1.0)


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to a cluster for a `with` block.

    For the address "local" a cluster is started, which ends with the block.
    """
    check_address(address)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == "local":
        options |= LOCAL
    if OFFLINE in os.environ:
        options["runtime_env"] = {"env_vars": {OFFLINE: os.environ[OFFLINE]}}
    try:
        try:
            ray.init(address, **options)
        except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise UsageError(f"--ray {address}: {type(error).__name__}: {error}; {ADDRESSES}") from error
        finally:
            for number, handler in handlers.items():  # Ray has replaced them
                signal.signal(number, handler)
        yield
    finally:
        ray.shutdown()
