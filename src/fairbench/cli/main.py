"""The `fairbench` command."""

from __future__ import annotations

import argparse
import gc
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from fairbench.cli.arguments import refuse_empty
from fairbench.cli.parser import command_names, parser
from fairbench.common.errors import Preempted, UsageError, unknown
from fairbench.common.installation import check_installation, missing_extra
from fairbench.common.processes import handling
from fairbench.common.terminal import say

READERS = ("list", "status", "audit", "report", "compare")
"""Commands that read files once, and end."""
SCHEMA = 1
"""The version of what `--json` prints.

It rises when a key is removed or changes its meaning. Keys may be added at any time.
"""
SIGNALS = [signal.SIGTERM]
if hasattr(signal, "SIGUSR1"):  # not on Windows
    SIGNALS.append(signal.SIGUSR1)
"""Signals that stop a driver as Ctrl-C does, see `fairbench.runner.trial_loop`."""
TO_BE_CONTINUED = 75
"""Exit code of a driver that a signal stopped; EX_TEMPFAIL of BSD's sysexits.h."""
FAULT = 70
"""Exit code after a fault of fairbench; EX_SOFTWARE of sysexits.h. Python's own is 1, which is a verdict of `gate`."""
ECHO = 1.0
"""Seconds in which a second signal counts as the first: a job system may signal both a step and its script."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The exit code is 0, 1, 2, 3, 70, 75 or 130; the help of each command explains it."""
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
        first_extra = "data" if words[0] == "data" else "bench"
        say(f"fairbench: {missing_extra(error, first_extra)}", is_error=True)
        return 2
    except Preempted as error:
        say(f"\nfairbench: {error}, to be continued; {_kept(words)}", is_error=True)
        return TO_BE_CONTINUED
    except KeyboardInterrupt:
        say(f"\nfairbench: stopped; {_kept(words)}", is_error=True)
        return 130
    except Exception:
        fault = "this is a fault of fairbench, and no verdict; please report it, with what `fairbench env` prints"
        say(f"{traceback.format_exc()}fairbench: {fault}", is_error=True)
        return FAULT


def _kept(words: Sequence[str]) -> str:
    """A message on what a stopped command keeps."""
    kept = "files" if words[0] == "data" else "trials"
    return f"finished {kept} are kept, the same command resumes"


def _run(words: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit code.

    Options without a command are those of `run`. Without any argument the help is printed as an error.
    """
    check_installation()
    top = parser()
    if not words:
        say(top.format_help(), is_error=True)
        return 2
    refuse_empty(words)
    known = command_names(top)
    if words[0] not in (*known, "--help", "--version", "-h", "-V"):
        if words[0] in ("help", "version"):
            raise UsageError(f"unknown command {words[0]!r}; did you mean '--{words[0]}'?")
        if not words[0].startswith("-"):
            raise unknown("command", words[0], known)
        words = ["run", *words]  # options without a command
    options = top.parse_args(words)
    if options.command in READERS:
        gc.disable()  # everything that is read is needed until the end
    stopping = preemptible() if options.command in ("run", "noise", "gate") else nullcontext()
    with stopping:
        shown = options.do(options)
        if isinstance(shown, int):
            return shown  # the command has shown everything itself, and gives its exit code
        _show(shown, options)
        return _exit_code(shown, options)


@contextmanager
def preemptible() -> Iterator[None]:
    """Raise Preempted in a `with` block when a signal arrives.

    A later signal also interrupts the handling of the first.
    """
    last = float("-inf")

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if time.monotonic() - last >= ECHO:
            last = time.monotonic()
            raise Preempted(signal.Signals(number).name)

    with handling(SIGNALS, stop):
        yield


def _show(shown: Any, options: argparse.Namespace) -> None:
    """Print what a command returns: as JSON if that is asked for, otherwise by rich or as a text."""
    if vars(options).get("json"):
        sys.stdout.write(_as_json(shown, options) + "\n")
    elif hasattr(shown, "__rich__"):
        from fairbench.common.console import Terminal

        Terminal().print(shown, highlight=False, crop=False)
    else:
        say(str(shown).removesuffix("\n"))


def _as_json(shown: Any, options: argparse.Namespace) -> str:
    """What a command shows as JSON, with the name of the command and the version of the keys."""
    import msgspec

    command = options.command
    if "verb" in options:
        command = f"{command} {options.verb}"
    values = {"schema": SCHEMA, "command": command, **shown.to_json()}
    encoded = msgspec.json.encode(values, enc_hook=str)
    return msgspec.json.format(encoded, indent=2).decode()


def _exit_code(shown: Any, options: argparse.Namespace) -> int:
    """The exit code of a command by what it shows: its own, or else 1 if something failed, otherwise 0.

    With `status --exit-code`, it is also 1 if the study is not complete, and with `--require`, if the requirement does
    not hold for each comparison.
    """
    code = getattr(shown, "exit_code", None)
    if code is not None:
        return int(code)
    if options.command == "status" and options.exit_code and not shown.complete:
        return 1
    if not getattr(shown, "ok", True):
        return 1
    required = vars(options).get("require")
    if not required:
        return 0
    reason = shown.unmet(required)
    if reason:
        say(f"fairbench: {reason}", is_error=True)
        return 1
    say(shown.met(required), is_error=bool(vars(options).get("json")))  # the object stays alone on standard output
    return 0
