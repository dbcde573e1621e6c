"""Random trainings until the time is over: `python tests/psilogic/soak/fuzz.py --minutes 30 --seed 0`.

Each seed is a trial: an optimizer with random hyperparameters takes some steps, and every check that applies is made.
The seed of a failed trial is printed; `--only SEED` repeats it.
"""

import argparse
import io
import random
import sys
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))  # where it is started as a program
import configurations
from by_reference import Twin
from trajectories import watch
from trials import HALVES, Trial, draw, model, moved

from psilogic import PsiLogic
from psilogic.backends.cpu import kernels

COMPILED = kernels.kernels
WIDE = {torch.complex64: torch.complex128}
"""The dtype in which a step is repeated, if not float64."""
CLOCKS = {"step": torch.float32, "chaos_start": torch.float32}
ULPS = {torch.float64: 5000, torch.float32: 64, torch.complex64: 64, torch.bfloat16: 3, torch.float16: 4}
"""The tolerance of an element after one step, in roundings: in float64 about 1e-12 of its summands."""
SMALLEST_MOMENT = {torch.float16: 1e-7, torch.bfloat16: 0.0}
"""The tolerance of a moment near 0, if not 1e-30."""


@dataclass
class Run:
    """A training: parameters, states, gates and executions after each step."""

    params: list
    optimizer: PsiLogic
    snapshots: list = field(default_factory=list)
    gates: list = field(default_factory=list)
    executed: Counter = field(default_factory=Counter)

    def go(self, trial, steps=None, before=None, watched=True, script=None):
        """Take these steps of the trial's script or another one, or all, each after `before(self, t)`."""
        seen = watch(self.optimizer) if watched else []
        if steps is None:
            steps = range(len(trial.script))
        for t in steps:
            if before is not None:
                before(self, t)
            for p, g in zip(self.params, (script or trial.script)[t], strict=True):
                p.grad = g
            for name, value in trial.scaler.items():
                setattr(self.optimizer, name, value)
            torch.manual_seed(t)  # stochastic rounding
            self.optimizer.step()
            self.executed += self.optimizer.executed
            self.snapshots.append(snapshot(self))
            self.gates.append(self.gates_of(seen))
            seen.clear()
        self.optimizer.observers.clear()
        return self

    def gates_of(self, seen):
        """Whether each parameter fired in a step; None where nothing was decided about it."""
        gates = {}
        for params, decision in seen:
            for p, gate in zip(params, decision.gate.tolist(), strict=True):
                gates[id(p)] = gate
        return [gates.get(id(p)) for p in self.params]


def start(trial: Trial, params, **overrides) -> Run:
    """A fresh optimizer for these parameters, in the trial's groups."""
    groups = []
    for options in trial.options:
        groups.append({**options, **overrides, "params": []})
    for p, i in zip(params, trial.members, strict=True):
        groups[i]["params"].append(p)
    common = {name: groups[0][name] for name in trial.common}
    return Run(params, PsiLogic(groups, **common))


def fresh(trial: Trial, offset=0) -> list:
    """The trial's initial parameters in separate memory."""
    return model([moved(x, offset) for x in trial.initial], trial.shared)


def snapshot(run: Run) -> list:
    """Copies of each parameter, under the name "param", and of its state."""
    return [{"param": p, **state} for p, state in configurations.snapshot(run.optimizer, run.params)]


@contextmanager
def setting(trial: Trial, threads=None):
    """The trial's number of threads, or a different one, and an installation with or without compiled kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or trial.threads)
    kernels.kernels = COMPILED if trial.compiled else None
    try:
        yield
    finally:
        torch.set_num_threads(before)
        kernels.kernels = COMPILED


# Comparisons


def assert_same_bits(actual, expected, what):
    """Every number of the snapshots is the same, NaN included."""
    for t, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            assert a.keys() == b.keys(), f"{what}: step {t}, tensor {i}: {sorted(a)} and {sorted(b)}"
            for name, value in a.items():
                if not torch.equal(value, b[name]):
                    where = f"{what}: step {t}, tensor {i}, {name}"
                    torch.testing.assert_close(value, b[name], rtol=0, atol=0, equal_nan=True, msg=where)


def assert_close(actual, expected, bound, what, spared=0):
    """Within the bound, element by element but for some that are spared, and NaN or infinite in the same places."""
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    off = ((actual - expected).abs() > bound) & ~same
    off |= actual.isfinite() != expected.isfinite()
    count = int(off.sum())
    if count > spared:
        i = int(off.flatten().nonzero()[0])
        mine = actual.flatten()[i].item()
        theirs = expected.flatten()[i].item()
        raise AssertionError(f"{what}: {count} of {off.numel()} are off; element {i}: {mine}, not {theirs}")


# Checks: each gets the trial and its run, and returns whether it applied


def each_step_is_foreach_in_float64(trial, run):
    """Each step again from where it began, one tensor after the other in float64: equal but for a few roundings."""
    if decays_before_it_descends(run, trial) and shares_memory(trial):
        return False
    flips = 0
    before = [{"param": x} for x in trial.initial]
    for t, after in enumerate(run.snapshots):
        twin = repeated_step(trial, before, t)
        # Rounding may decide where a signal is just at its threshold.
        if run.gates[t] == twin.gates[0]:
            compare_step(trial, before, after, twin.snapshots[0], trial.script[t], f"step {t}")
        else:
            flips += 1
        before = after
    assert flips <= 1, f"gates differ in {flips} steps"
    return True


def decays_before_it_descends(run, trial):
    """Whether all tensors that share memory decay before any of them descends."""
    if run.executed["foreach"] and any(group["foreach"] is not False for group in trial.groups):
        return True
    return bool(run.executed["fused"]) and any(group.get("quantum_decay") for group in trial.groups)


def shares_memory(trial):
    return any(i is not None for i in trial.shared)


def repeated_step(trial, before, t):
    """The run of step t alone from a snapshot, one tensor after the other, in float64 or its complex dtype."""
    params = model([exact(x) for x in before], trial.shared)
    twin = start(trial, params, foreach=False, fused=False, bf16_update="nearest")
    for p, entry in zip(twin.params, before, strict=True):
        state = wide_state(entry, p.dtype)
        if state:
            twin.optimizer.state[p] = state
    grads = []
    for p, g in zip(twin.params, trial.script[t], strict=True):
        grads.append(None if g is None else g.to(p.dtype))
    one_step = replace(trial, script=[grads])
    return twin.go(one_step)


def wide_state(entry, dtype):
    """The state of a snapshot of a tensor, with moments in this dtype; the compensation is in the parameter."""
    state = {}
    for name, value in entry.items():
        if name in ("param", "compensation"):
            continue
        wide = dtype if name.startswith("exp") else CLOCKS.get(name, torch.float64)
        state[name] = value.to(wide, copy=True)
    return state


def exact(entry):
    """A parameter as it is before it is rounded to bfloat16."""
    param = entry["param"]
    wide = param.to(WIDE.get(param.dtype, torch.float64), copy=True)
    if "compensation" in entry:
        wide = wide + entry["compensation"].to(wide.dtype)
    return wide


def norm_tolerance(trial):
    """The relative error of norms; others may be pooled with a tensor's."""
    if torch.bfloat16 in trial.dtypes and any(group.get("bf16_update") == "kahan" for group in trial.groups):
        return 1e-2  # AGC compares with parameters as they are rounded
    if trial.dtypes == {torch.float64}:
        return 1e-11
    return 1e-4


def compare_step(trial, before, after, expected, grads, what):
    """Compare one step of all parameters; the tolerance follows from roundings of a parameter and of its summands."""
    for i, g in enumerate(grads):
        if g is not None and g.numel():
            compare_tensor(trial, i, before[i], after[i], expected[i], g, f"{what}, tensor {i}")


def compare_tensor(trial, i, before, after, expected, g, what):
    """Compare the i-th parameter and its state: before a step, after it, and as it should be."""
    options = trial.options[trial.members[i]]
    dtype = after["param"].dtype
    eps = ULPS[dtype] * torch.finfo(dtype).eps
    norms = norm_tolerance(trial)
    relative = max(eps, norms)
    centered = options.get("grad_centralize", False) and g.ndim > 1
    spared = 1 + g.numel() // 50 if centered else 0  # an element near the mean keeps few digits
    compared = torch.ones(g.shape, dtype=torch.bool)
    smallest = 1e-30
    if dtype == torch.float16:  # which cannot hold every square; its smallest numbers are 6e-8 apart
        compared = (expected["exp_avg_sq"] > 1e-3) & (expected["exp_avg_sq"] < 6e4)
        smallest = 2.5e-7

    def assert_near(mine, theirs, bound, name):
        assert_close(torch.where(compared, mine, 0), torch.where(compared, theirs, 0), bound, f"{what}, {name}", spared)

    for name in ("exp_avg", "exp_avg_sq"):
        old = before[name].abs() if name in before else 0
        bound = relative * (old + 2 * expected[name].abs()) + SMALLEST_MOMENT.get(dtype, 1e-30)
        assert_near(after[name], expected[name], bound, name)
    if dtype in HALVES and (trial.shared[i] is not None or i in trial.shared):
        return  # rounded between two updates
    old = exact(before)
    new = expected["param"]
    rounding = eps
    if "compensation" in after:
        rounding = eps * torch.finfo(dtype).eps
    descent = descent_of(expected, options).abs()
    # A moment may be the difference of two larger numbers, both rounded, or scaled by a norm over halves.
    if "exp_avg" in before and (dtype in HALVES or trial.dtypes & HALVES):
        larger = sizes(expected["exp_avg"]) + 2 * sizes(before["exp_avg"])
        descent = descent_of({**expected, "exp_avg": larger}, options).abs()
    made_of = descent + (new - old).abs()
    bound = rounding * (old.abs() + new.abs()) + relative * made_of + smallest
    assert_near(exact(after), new, bound, "parameter")
    for name in ("chaos_fast", "chaos_slow", "chaos_ref"):
        if name in after:
            tolerance = norms * (expected[name].abs() + expected["chaos_slow"].abs()) + 1e-30
            assert_close(after[name].double(), expected[name], tolerance, f"{what}, {name}")
    assert after["step"] == expected["step"], what


def sizes(x):
    """|x|, of a complex number its parts'."""
    if not x.is_complex():
        return x.abs()
    return torch.view_as_complex(torch.view_as_real(x).abs())


def descent_of(state, options):
    """lr m_hat / (sqrt(v_hat) + eps), of a complex number for each of its parts."""
    m = state["exp_avg"]
    v = state["exp_avg_sq"]
    is_complex = v.is_complex()
    if is_complex:
        m = torch.view_as_real(m)
        v = torch.view_as_real(v)
    t = state["step"].double()
    beta1, beta2 = options["betas"]
    numerator = float(options["lr"]) * m / (1 - beta1**t)
    denominator = v.sqrt() / (1 - beta2**t) ** 0.5 + options["eps"]
    descent = numerator / denominator
    return torch.view_as_complex(descent) if is_complex else descent


def the_training_is_that_of_the_reference(trial, run):
    """The whole training by the reference."""
    plain = trial.dtypes == {torch.float64} and not shares_memory(trial)
    if not plain or not trial.tiny or not trial.finite:
        return False
    for i, member in trained_by_reference(trial).items():
        compare_with_reference(run.snapshots[-1][i], member, f"reference, tensor {i}")
    return True


def trained_by_reference(trial, factor=1.0):
    """The parameters after a training by the reference with gradients times a factor: a `Member` for each position."""
    reference = Twin(start(trial, fresh(trial)).optimizer)
    loss_scale = trial.scaler.get("grad_scale")
    if loss_scale is not None:
        factor = factor / loss_scale
    order = sorted(range(len(trial.initial)), key=lambda i: trial.members[i])
    for grads in trial.script:
        scaled = [None if g is None else g * factor for g in grads]
        reference.step([scaled[i] for i in order])
    return dict(zip(order, reference.members, strict=True))


def compare_with_reference(entry, member, what):
    """Compare a parameter and its state with those of the reference."""
    for name, value in entry.items():
        expected = member.theta
        if name != "param":
            expected = torch.as_tensor(member.state[name], dtype=torch.float64)
        near(value, expected.reshape(value.shape), f"{what}, {name}")


def near(actual, expected, what):
    """Equal to 1e-10 of the largest element: differences grow with the steps, and with centralization."""
    finite = expected[expected.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 0.0
    bound = 1e-10 * largest + 1e-14
    assert_close(actual.double(), expected, bound, what)


def threads_change_no_bit(trial, run):
    elements = sum(x.numel() for x in trial.initial)
    if set(run.executed) != {"native"} or elements < 1 << 15:
        return False  # so few elements are not shared out
    for threads in (1, 2, 3):
        if threads == trial.threads:
            continue
        with setting(trial, threads):
            other = start(trial, fresh(trial)).go(trial)
        assert_same_bits(other.snapshots, run.snapshots, f"{threads} threads")
    return True


def a_disturbed_run_is_the_undisturbed_one(trial, run):
    """Saved, loaded and resumed in other memory without a monitor; addresses change by `x.data = ...`: bit by bit."""
    chance = random.Random(trial.seed)
    middle = len(trial.script) // 2

    def perhaps_move(x):
        if chance.random() < 0.3:
            x.data = moved(x.data, chance.randrange(9))

    def move(other, t):
        for p in other.params:
            for value in other.optimizer.state.get(p, {}).values():
                perhaps_move(value)
            if not shares_memory(trial):
                perhaps_move(p)

    with setting(trial):
        first = start(trial, fresh(trial, 1)).go(trial, range(middle), move)
        file = io.BytesIO()
        torch.save(first.optimizer.state_dict(), file)
        file.seek(0)
        elsewhere = [moved(p, 3) for p in first.params]
        second = start(trial, model(elsewhere, trial.shared))
        second.optimizer.load_state_dict(torch.load(file, weights_only=True))
        second.go(trial, range(middle, len(trial.script)), watched=False)
    assert_same_bits(first.snapshots + second.snapshots, run.snapshots, "disturbed")
    return True


CHECKS = [
    each_step_is_foreach_in_float64,
    the_training_is_that_of_the_reference,
    threads_change_no_bit,
    a_disturbed_run_is_the_undisturbed_one,
]


def attempt(trial: Trial, counts: Counter) -> list:
    """Run a trial and all checks; returns the failures."""
    given = [[None if g is None else g.clone() for g in grads] for grads in trial.script]
    failures = []

    def failed(name):
        failures.append(f"{name}: {traceback.format_exc(limit=-2)}")

    with setting(trial):
        try:
            run = start(trial, fresh(trial)).go(trial)
        except Exception:
            failed("the training")
            return [str(trial), *failures]
    counts += Counter(trials=1, steps=len(trial.script), **run.executed)
    for check in CHECKS:
        try:
            with setting(trial):
                counts[check.__name__] += check(trial, run)
        except Exception:
            failed(check.__name__)
    for grads, kept in zip(trial.script, given, strict=True):
        for g, x in zip(grads, kept, strict=True):
            if g is not None and not torch.equal(g.nan_to_num(), x.nan_to_num()):
                failures.append("a gradient was changed")
    if not failures:
        return []
    return [str(trial), *failures]


def main(arguments=None) -> int:
    """Try seeds until the time is over; returns 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0, help="the first one; the others follow")
    parser.add_argument("--trials", type=int, default=sys.maxsize, help="the largest number of trials")
    parser.add_argument("--small", action="store_true", help="no tensor of more than some dozen elements")
    parser.add_argument("--only", type=int, help="repeat the trial of this seed")
    options = parser.parse_args(arguments)
    if options.only is not None:
        options.seed = options.only
        options.trials = 1
    end = time.monotonic() + 60 * options.minutes
    counts: Counter = Counter()
    failed = []
    seed = options.seed
    while seed < options.seed + options.trials:
        if seed > options.seed and time.monotonic() >= end:
            break
        problems = attempt(draw(seed, options.small), counts)
        if problems:
            failed.append(seed)
            text = "\n  ".join(problems)
            print(f"\nseed {seed}: {text}", flush=True)
        seed += 1
    summary = f"{len(failed)} of {seed - options.seed} trials failed"
    if failed:
        summary += f": seeds {failed}"
    print(f"\n{summary}")
    for name, number in sorted(counts.items()):
        print(f"{number:9,}  {name}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
