"""The `fairbench` command."""

from __future__ import annotations

import argparse
import gc
import io
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from fairbench.cli.options import refuse_empty
from fairbench.cli.parser import command_names, parser
from fairbench.common.errors import Preempted, UsageError, unknown
from fairbench.common.installation import check_installation, missing_extra
from fairbench.common.processes import handling
from fairbench.common.terminal import say

READERS = ("list", "status", "audit", "report", "compare")
"""Commands that read files once, and end."""
SCHEMA = 1
"""Of what `--json` prints; rises when a key is removed or changes its meaning, and keys may be added at any time."""
KEPT = "finished {} are kept, the same command resumes"
SIGNALS = [number for name in ("SIGTERM", "SIGUSR1") if (number := getattr(signal, name, None))]  # not all on Windows
"""Signals that stop a driver as Ctrl-C does, see `fairbench.runner.trial_loop`."""
TO_BE_CONTINUED = 75
"""Exit code of a driver that a signal stopped; EX_TEMPFAIL of BSD's sysexits.h."""
ECHO = 1.0
"""Seconds in which a second signal counts as the first: a job system may signal both a step and its script."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit codes are 0, 1, 2, 75 and 130, which the help of each command explains."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a minus sign is no reason to fail
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # as in `fairbench list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (UsageError, OSError) as error:
        say(f"fairbench: {error}", is_error=True)
        return 2
    except ModuleNotFoundError as error:
        say(f"fairbench: {missing_extra(error, 'data' if words[0] == 'data' else 'bench')}", is_error=True)
        return 2
    except Preempted as error:
        say(f"\nfairbench: {error}, to be continued; {KEPT.format('trials')}", is_error=True)
        return TO_BE_CONTINUED
    except KeyboardInterrupt:
        say(f"\nfairbench: stopped; {KEPT.format('files' if words[0] == 'data' else 'trials')}", is_error=True)
        return 130


def _run(words: Sequence[str]) -> int:
    """Run the command that the arguments name; without one it is `run`, without arguments the help is an error."""
    check_installation()
    top = parser()
    if not words:
        say(top.format_help(), is_error=True)
        return 2
    refuse_empty(words)
    known = [*command_names(top), "--help", "--version"]
    if not words[0].startswith("-") and words[0] not in known:
        raise unknown("command", words[0], known)
    options = top.parse_args(words if words[0] in (*known, "-h", "-V") else ["run", *words])
    if options.command in READERS:
        gc.disable()  # everything that is read is needed until the end
    with preemptible() if options.command == "run" else nullcontext():
        return _show(options.do(options), options)


@contextmanager
def preemptible() -> Iterator[None]:
    """The signals raise Preempted in the block; a second one also interrupts the handling of the first."""
    last = float("-inf")

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if time.monotonic() - last >= ECHO:
            last = time.monotonic()
            raise Preempted(signal.Signals(number).name)

    with handling(SIGNALS, stop):
        yield


def _show(shown: Any, options: argparse.Namespace) -> int:
    """Show what a command returns: a text, something that rich prints, or JSON of it; a number has been shown already.

    Returns the exit code: the number, or whether what is shown is not as it must be.
    """
    if isinstance(shown, int):
        return shown
    if vars(options).get("json"):
        import msgspec

        command = " ".join(filter(None, (options.command, vars(options).get("verb"))))
        values = {"schema": SCHEMA, "command": command, **shown.to_json()}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(values, enc_hook=str), indent=2).decode() + "\n")
    elif hasattr(shown, "__rich__"):
        from fairbench.common.console import Terminal

        Terminal().print(shown, highlight=False, crop=False)
    else:
        say(str(shown).removesuffix("\n"))
    return int(not getattr(shown, options.required, True))
