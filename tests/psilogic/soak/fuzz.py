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
from dataclasses import dataclass, field
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


@dataclass
class Run:
    """A training: parameters, states, decisions and executions after each step."""

    params: list
    optimizer: PsiLogic
    snapshots: list = field(default_factory=list)
    decisions: list = field(default_factory=list)
    executed: Counter = field(default_factory=Counter)

    def go(self, trial, steps=None, before=None, watched=True):
        """Take these steps of the script, or all, each after `before(self, t)`."""
        seen = watch(self.optimizer) if watched else []
        for t in range(len(trial.script)) if steps is None else steps:
            if before is not None:
                before(self, t)
            for p, g in zip(self.params, trial.script[t], strict=True):
                p.grad = g
            for name, value in trial.scaler.items():
                setattr(self.optimizer, name, value)
            torch.manual_seed(t)  # stochastic rounding
            self.optimizer.step()
            self.executed += self.optimizer.executed
            self.snapshots.append(snapshot(self))
            fields = {id(p): (d, i) for params, d in seen for i, p in enumerate(params)}
            self.decisions.append([fields.get(id(p)) for p in self.params])
            seen.clear()
        self.optimizer._observers.clear()
        return self


def start(trial: Trial, params, **overrides) -> Run:
    """A fresh optimizer for these parameters, in the trial's groups."""
    groups = [
        {**options, **overrides, "params": [p for p, mine in zip(params, trial.members, strict=True) if mine == i]}
        for i, options in enumerate(trial.options)
    ]
    return Run(params, PsiLogic(groups, **{name: groups[0][name] for name in trial.common}))


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
            for name in a:
                if not torch.equal(a[name], b[name]):
                    where = f"{what}: step {t}, tensor {i}, {name}"
                    torch.testing.assert_close(a[name], b[name], rtol=0, atol=0, equal_nan=True, msg=where)


def assert_close(actual, expected, bound, what, spared=0):
    """Within the bound, element by element but for some that are spared, and NaN or infinite in the same places."""
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    off = ((actual - expected).abs() > bound) & ~same
    off |= actual.isfinite() != expected.isfinite()
    if int(off.sum()) > spared:
        i = int(off.flatten().nonzero()[0])
        pair = actual.flatten()[i].item(), expected.flatten()[i].item()
        raise AssertionError(
            f"{what}: {int(off.sum())} of {off.numel()} are off; element {i}: {pair[0]}, not {pair[1]}"
        )


def same_gates(ours, theirs):
    """Whether the same tensors fired in a step; rounding may decide where a signal is just at its threshold."""
    pairs = zip(ours, theirs, strict=True)
    return all(mine is None or bool(mine[0].gate[mine[1]]) == bool(other[0].gate[other[1]]) for mine, other in pairs)


# Checks: each gets the trial and its run, and returns whether it applied


def each_step_is_foreach_in_float64(trial, run):
    """Each step again from where it began, one tensor after the other in float64: equal but for a few roundings."""
    together = run.executed["foreach"] and any(group["foreach"] is not False for group in trial.groups)
    together |= run.executed["fused"] and any(group.get("quantum_decay") for group in trial.groups)
    if together and any(i is not None for i in trial.shared):
        return False  # all that share memory decay before any of them descends
    flips = 0
    for t, after in enumerate(run.snapshots):
        before = run.snapshots[t - 1] if t else [{"param": x} for x in trial.initial]
        params = model([exact(x) for x in before], trial.shared)
        twin = start(trial, params, foreach=False, fused=None, bf16_update="nearest")
        for p, x in zip(twin.params, before, strict=True):
            twin.optimizer.state[p] = {
                name: value.to(p.dtype if name.startswith("exp") else CLOCKS.get(name, torch.float64), copy=True)
                for name, value in x.items()
                if name not in ("param", "compensation")
            }
            if not twin.optimizer.state[p]:
                del twin.optimizer.state[p]
        script = [None if g is None else g.to(p.dtype) for p, g in zip(twin.params, trial.script[t], strict=True)]
        one = Trial(**{**vars(trial), "script": [script]})
        twin.go(one, [0])
        if same_gates(run.decisions[t], twin.decisions[0]):
            compare_step(trial, before, after, twin.snapshots[0], trial.script[t], f"step {t}")
        else:
            flips += 1
    assert flips <= 1, f"gates differ in {flips} steps"
    return True


def exact(x):
    """A parameter as it is before it is rounded to bfloat16."""
    p = x["param"].to(WIDE.get(x["param"].dtype, torch.float64), copy=True)
    return p + x["compensation"].to(p.dtype) if "compensation" in x else p


def compare_step(trial, before, after, expected, grads, what):
    """Compare one step of all parameters; the tolerance follows from roundings of a parameter and of its summands."""
    for i, (x, y, z, g) in enumerate(zip(before, after, expected, grads, strict=True)):
        options, dtype, seen = trial.options[trial.members[i]], y["param"].dtype, f"{what}, tensor {i}"
        if g is None or not y["param"].numel():
            continue
        centered = options.get("grad_centralize", False) and g.ndim > 1
        eps = ULPS[dtype] * torch.finfo(dtype).eps
        norms = 1e-11 if trial.dtypes == {torch.float64} else 1e-4  # others may be pooled with this one
        if torch.bfloat16 in trial.dtypes and any(o.get("bf16_update") == "kahan" for o in trial.groups):
            norms = 1e-2  # AGC compares with parameters as they are rounded
        spared = 1 + g.numel() // 50 if centered else 0  # an element near the mean keeps few digits
        ok = torch.ones(g.shape, dtype=torch.bool)
        if dtype == torch.float16:  # which cannot hold every square
            ok = (z["exp_avg_sq"] > 1e-3) & (z["exp_avg_sq"] < 6e4)
        least = 2.5e-7 if dtype == torch.float16 else 1e-30  # whose smallest numbers are 6e-8 apart
        for name in ("exp_avg", "exp_avg_sq"):
            old = x[name].abs() if name in x else 0
            bound = max(eps, norms) * (old + 2 * z[name].abs()) + (
                1e-30 if dtype not in HALVES else 1e-7 * (dtype == torch.float16)
            )
            assert_close(torch.where(ok, y[name], 0), torch.where(ok, z[name], 0), bound, f"{seen}, {name}", spared)
        if dtype in HALVES and (trial.shared[i] is not None or i in trial.shared):
            continue  # rounded between two updates
        theta, old, new = exact(y), exact(x), z["param"]
        rounding = eps if "compensation" not in y else eps * torch.finfo(dtype).eps
        descent = descent_of(z, options).abs()
        # A moment may be the difference of two larger numbers, both rounded, or scaled by a norm over halves.
        if "exp_avg" in x and (dtype in HALVES or trial.dtypes & HALVES):
            descent = descent_of({**z, "exp_avg": sizes(z["exp_avg"]) + 2 * sizes(x["exp_avg"])}, options).abs()
        made_of = descent + (new - old).abs()
        bound = rounding * (old.abs() + new.abs()) + max(eps, norms) * made_of + least
        assert_close(torch.where(ok, theta, 0), torch.where(ok, new, 0), bound, f"{seen}, parameter", spared)
        for name in ("chaos_fast", "chaos_slow", "chaos_ref"):
            if name in y:
                tolerance = norms * (z[name].abs() + z["chaos_slow"].abs()) + 1e-30
                assert_close(y[name].double(), z[name], tolerance, f"{seen}, {name}")
        assert y["step"] == z["step"], seen


def sizes(x):
    """|x|, of a complex number its parts'."""
    return torch.view_as_complex(torch.view_as_real(x).abs()) if x.is_complex() else x.abs()


def descent_of(x, options):
    """lr m_hat / (sqrt(v_hat) + eps)"""
    (beta1, beta2), t = options["betas"], x["step"].double()
    v = x["exp_avg_sq"]
    root = torch.view_as_real(v).sqrt() if v.is_complex() else v.sqrt()
    m = torch.view_as_real(x["exp_avg"]) if v.is_complex() else x["exp_avg"]
    found = float(options["lr"]) * m / (1 - beta1**t) / (root / (1 - beta2**t) ** 0.5 + options["eps"])
    return torch.view_as_complex(found) if v.is_complex() else found


def the_training_is_that_of_the_reference(trial, run):
    """The whole training by the reference."""
    plain = trial.dtypes == {torch.float64} and all(i is None for i in trial.shared)
    if not plain or not trial.tiny or not trial.finite:
        return False
    reference = Twin(start(trial, fresh(trial)).optimizer)
    scale = trial.scaler.get("grad_scale")
    order = sorted(range(len(trial.initial)), key=lambda i: trial.members[i])
    for grads in trial.script:
        if scale is not None:
            grads = [None if g is None else g / scale for g in grads]
        reference.step([grads[i] for i in order])
    for i, member in zip(order, reference.members, strict=True):
        for name, value in run.snapshots[-1][i].items():
            expected = member.theta
            if name != "param":
                expected = torch.as_tensor(member.state[name], dtype=torch.float64)
            near(value, expected.reshape(value.shape), f"reference, tensor {i}, {name}")
    return True


def near(actual, expected, what):
    """Equal to 1e-10 of the largest element: differences grow with the steps, and with centralization."""
    finite = expected[expected.isfinite()].abs()
    bound = 1e-10 * (finite.max().item() if finite.numel() else 0.0) + 1e-14
    assert_close(actual.double(), expected, bound, what)


def threads_change_no_bit(trial, run):
    if set(run.executed) != {"native"} or sum(map(torch.Tensor.numel, trial.initial)) < 1 << 15:
        return False  # so few elements are not shared out
    for threads in {1, 2, 3} - {trial.threads}:
        with setting(trial, threads):
            other = start(trial, fresh(trial)).go(trial)
        assert_same_bits(other.snapshots, run.snapshots, f"{threads} threads")
    return True


def a_disturbed_run_is_the_undisturbed_one(trial, run):
    """Saved, loaded and resumed in other memory without a monitor; addresses change by `x.data = ...`: bit by bit."""
    chance, middle = random.Random(trial.seed), len(trial.script) // 2

    def move(other, t):
        for p in other.params:
            for x in other.optimizer.state.get(p, {}).values():
                if chance.random() < 0.3:
                    x.data = moved(x.data, chance.randrange(9))
            if set(trial.shared) == {None} and chance.random() < 0.3:
                p.data = moved(p.data, chance.randrange(9))

    with setting(trial):
        first = start(trial, fresh(trial, 1)).go(trial, range(middle), move)
        file = io.BytesIO()
        torch.save(first.optimizer.state_dict(), file)
        file.seek(0)
        second = start(trial, model([moved(p, 3) for p in first.params], trial.shared))
        second.optimizer.load_state_dict(torch.load(file, weights_only=True))
        second.go(trial, range(middle, len(trial.script)), watched=False)
    assert_same_bits(first.snapshots + second.snapshots, run.snapshots, "disturbed")
    return True


CHECKS = [
    each_step_is_foreach_in_float64, the_training_is_that_of_the_reference, threads_change_no_bit,
    a_disturbed_run_is_the_undisturbed_one,
]  # fmt: skip


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
    return [str(trial), *failures] if failures else []


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
        options.seed, options.trials = options.only, 1
    end, counts, failed = time.monotonic() + 60 * options.minutes, Counter(), []
    seed = options.seed
    while seed < options.seed + options.trials and (seed == options.seed or time.monotonic() < end):
        if problems := attempt(draw(seed, options.small), counts):
            failed.append(seed)
            print(f"\nseed {seed}: " + "\n  ".join(problems), flush=True)
        seed += 1
    print(f"\n{len(failed)} of {seed - options.seed} trials failed{': seeds ' if failed else ''}{failed or ''}")
    for name, number in sorted(counts.items()):
        print(f"{number:9,}  {name}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
