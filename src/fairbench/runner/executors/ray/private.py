"""The cluster of one study on one machine; Ray reads its environment when it is imported."""

import os
import secrets


def keep_private() -> None:
    """Have Ray start a cluster that no other machine can join and, from Ray 2.52 on, no other user of this one."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on Linux too: this machine is 127.0.0.1, and listens there
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
