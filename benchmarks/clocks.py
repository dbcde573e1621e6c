"""Clocks for a step: wall clock on a CPU; on a GPU its events, call after call or in a graph, and the host's time."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

Run = Callable[[], Any]
Clock = Callable[[Run], float]
CALLS = 20
"""Calls that a GPU is given without a wait, so that the host is ahead of it where it can be."""


def wall(run: Run) -> float:
    """Seconds that a call takes on a CPU."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def processor(run: Run) -> float:
    """Seconds of the processor that this thread needs for a call, without those in which others had it."""
    began = time.thread_time()
    run()
    return time.thread_time() - began


def blocks(run: Run, count: int) -> Run:
    """A number of calls as one."""

    def run_all() -> None:
        for _ in range(count):
            run()

    return run_all


def device(run: Run) -> float:
    """Seconds that a call takes on a GPU, by its events, when CALLS of them follow each other without a wait."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(CALLS):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / CALLS


def host(run: Run) -> float:
    """Seconds until the host has launched all work of a call on an idle GPU."""
    torch.cuda.synchronize()
    return wall(run)


def captured(run: Run) -> Run | None:
    """The replay of a CUDA graph of a call that has been made before; None if it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(), torch.cuda.graph(graph):
            warnings.simplefilter("ignore")  # the learning rate does not change
            run()
    except RuntimeError as error:
        print(f"  no graph: {str(error).partition(chr(10))[0]}")
        return None
    return graph.replay
