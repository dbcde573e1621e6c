"""What an optimizer's steps leave for its monitor: sums over steps, the last decisions, and which tensors spiked.

A record knows no optimizer, since the optimizer refers to it: both would stay in memory until Python looks for cycles.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.step import Decision, DetectorState
from psilogic.tensors.device_tables import capturing

SPIKE_LOG_STEPS = 1000
"""Number of last steps that the spike log covers."""


@dataclass
class Seen:
    """What is known about the tensors of a bucket.

    The sums are added on the device, so that they include replays of a CUDA graph.
    """

    params: list[Tensor]
    sums: Tensor  # shape (5, N): firing steps, active steps, cancellation, weight decay, steps
    decision: Decision  # the last decision about these tensors
    step: int  # the step of that decision


class Firing(NamedTuple):
    """Which tensors of a bucket spiked in one step; the tensors stay on the device until a result is requested."""

    step: int
    params: list[Tensor]
    fired: Tensor
    ratio: Tensor


class Record:
    """The steps of an optimizer since a monitor was attached."""

    def __init__(self) -> None:
        self.step = 0
        self.seen: dict[tuple[int, ...], Seen] = {}
        self.firings: deque[Firing] = deque()

    def count(self, *step_arguments: Any) -> None:
        """Count a step, and forget the spikes that are too old for the log."""
        self.step += 1
        last_forgotten = self.step - SPIKE_LOG_STEPS
        while self.firings and self.firings[0].step <= last_forgotten:
            self.firings.popleft()

    def observe(self, params: list[Tensor], decision: Decision) -> None:
        """Add what a step decided about the tensors of a bucket.

        Raises:
            RuntimeError: a CUDA graph captures the first step of these tensors that is observed.
        """
        active = decision.cancellation > 0
        weight_decay = decision.decay - decision.cancellation
        steps = torch.ones_like(decision.gate)
        rows = (decision.gate, active, decision.cancellation, weight_decay, steps)
        sums = torch.stack([row.to(decision.gn.dtype) for row in rows]).detach()
        key = _key(params)
        seen = self.seen.get(key)
        if seen is not None:
            seen.sums.add_(sums)
            seen.decision = decision
            seen.step = self.step
        elif capturing():  # each replay would reset the sums to this step's
            raise RuntimeError("a CUDA graph captures a monitored step: take a monitored step without a graph first")
        else:
            self.seen[key] = Seen(params, sums, decision, self.step)
        if not (capturing() or torch.compiler.is_compiling()):  # a growing log would be compiled again in every step
            fired = decision.gate & (decision.warmup > 0)
            self.firings.append(Firing(self.step, params, fired, decision.ratio))

    def state_dict(self, params: list[Tensor]) -> dict[str, Any]:
        """The record as plain values and tensors, with the positions of its tensors among these parameters."""
        positions = {id(param): i for i, param in enumerate(params)}

        def positions_of(chosen: list[Tensor]) -> list[int]:
            return [positions[id(param)] for param in chosen]

        buckets = []
        for seen in self.seen.values():
            decision = seen.decision._asdict()
            decision["memory"] = seen.decision.memory._asdict()
            buckets.append(
                {
                    "params": positions_of(seen.params),
                    "sums": seen.sums,
                    "decision": decision,
                    "step": seen.step,
                }
            )
        spikes = []
        for firing in self.firings:
            spikes.append((firing.step, positions_of(firing.params), firing.fired, firing.ratio))
        return {"step": self.step, "seen": buckets, "spikes": spikes}

    def load_state_dict(self, state: dict[str, Any], params: list[Tensor]) -> None:
        """Continue another record, given its `state_dict` and the parameters in the same order."""
        self.step = state["step"]
        self.seen.clear()
        for bucket in state["seen"]:
            memory = DetectorState(**bucket["decision"]["memory"])
            decision = Decision(**{**bucket["decision"], "memory": memory})
            bucket_params = [params[i] for i in bucket["params"]]
            self.seen[_key(bucket_params)] = Seen(
                params=bucket_params,
                sums=bucket["sums"].clone(),
                decision=decision,
                step=bucket["step"],
            )
        self.firings.clear()
        for step, positions, fired, ratio in state["spikes"]:
            self.firings.append(Firing(step, [params[i] for i in positions], fired, ratio))


def _key(params: list[Tensor]) -> tuple[int, ...]:
    """A key for the tensors of a bucket."""
    return tuple(map(id, params))
