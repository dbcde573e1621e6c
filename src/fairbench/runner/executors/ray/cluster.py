"""The way to a Ray cluster, and Ray itself."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairbench.common.errors import UsageError

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody has asked to be counted
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # `uv run` would build every worker an environment
os.environ.setdefault("RAY_worker_niceness", "0")  # as without Ray; its 15 starves trials where anything else runs

try:
    import ray
    import ray.exceptions
    import ray.util.scheduling_strategies
except ImportError as error:
    raise UsageError(f"--ray needs Ray, which is not here ({error}); install it: pip install 'psilogic[ray]'") from None

__all__ = ["await_head", "connected", "ray"]
ADDRESSES = "say HOST:PORT as `ray start --head` printed it, auto on a node of a cluster, or nothing for one of its own"
ANSWER = 10.0
"""Seconds in which somebody must answer at an address."""
HEAD_ANSWER = 30.0
"""Seconds in which a head that was there must answer again: after 60 Ray ends this process, with words of its own."""
LOCAL = {"include_dashboard": False, "object_store_memory": 100_000_000, "_node_ip_address": "127.0.0.1"}
"""A cluster on this machine: nobody else reaches it, and it stores little, since records are small."""


def check_address(address: str) -> None:
    """See whether somebody answers at an address of the form HOST:PORT, of which Ray is sure after minutes only.

    Raises:
        UsageError: nobody does, or it has another form.
    """
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UsageError(f"--ray {address}: no such address; {ADDRESSES}")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--ray {address}: nobody answers there ({error}); {ADDRESSES}") from error


def await_head(address: str) -> None:
    """See whether the head of the cluster is still there, and give one that starts anew some time.

    Raises:
        UsageError: it is lost.
    """
    until = time.monotonic() + HEAD_ANSWER
    while True:
        try:
            return check_address(address)
        except UsageError:
            if time.monotonic() > until:
                raise UsageError(
                    f"--ray {address}: the head of the cluster has not answered for {HEAD_ANSWER:.0f} s; "
                    "all records are kept, and the same command goes on with a cluster that has one"
                ) from None
        time.sleep(1.0)


@contextmanager
def connected(address: str) -> Iterator[None]:
    """A connection to a cluster; one that is started for it lives as long as it, and is reached from this machine only.

    Raises:
        UsageError: there is no such cluster, or it has another version of Ray or Python.
    """
    check_address(address)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    local: dict[str, Any] = LOCAL if address == "local" else {}
    offline = {name: os.environ[name] for name in ("HF_HUB_OFFLINE",) if name in os.environ}
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        try:
            ray.init(address, runtime_env={"env_vars": offline} if offline else None, **local, **quiet)
        except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise UsageError(f"--ray {address}: {type(error).__name__}: {error}; {ADDRESSES}") from error
        finally:
            for number, handler in handlers.items():  # Ray has put its own there
                signal.signal(number, handler)
        yield
    finally:
        ray.shutdown()
