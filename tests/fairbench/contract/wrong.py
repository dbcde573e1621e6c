"""Optimizers with one fault each, for the checks of an optimizer; and a few that are sound."""

import math
import os
import signal
import sys
import time

import torch
import torch.nn.functional as F


class Signs(torch.optim.Optimizer):
    """Sign momentum, which is sound; most subclasses have one wrong method."""

    def __init__(self, params, lr=1e-3, momentum=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.remembered = {}
        self.steps = 0

    def groups(self):
        return self.param_groups

    def end(self):
        pass

    def average(self, p):
        return self.state[p].setdefault("average", torch.zeros_like(p))

    def gradient(self, p):
        return p.grad

    def rate(self, group):
        return group["lr"]

    def decay(self, group):
        return group["weight_decay"]

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.steps += 1
        for group in self.groups():
            rate = self.rate(group)
            decay = self.decay(group)
            for p in group["params"]:
                gradient = self.gradient(p)
                if gradient is None:
                    continue
                average = self.average(p)
                average.lerp_(gradient, 1 - group["momentum"])
                p.mul_(1 - rate * decay)
                p.add_(average.sign(), alpha=-rate)
        self.end()
        return loss

    def params(self):
        params = []
        for group in self.param_groups:
            params += group["params"]
        return params


class Climbs(Signs):
    def rate(self, group):
        return -group["lr"]


class OwnRate(Signs):
    def rate(self, group):
        return self.defaults["lr"]


class FirstGroup(Signs):
    def rate(self, group):
        return self.param_groups[0]["lr"]


class Forgets(Signs):
    def average(self, p):
        return self.remembered.setdefault(p, torch.zeros_like(p))


class Unpicklable(Signs):
    def average(self, p):
        self.state[p]["kind"] = Signs
        return super().average(p)


class Noisy(Signs):
    def gradient(self, p):
        if p.grad is None:
            return None
        return p.grad + torch.randn(p.shape)


class Sullies(Signs):
    def gradient(self, p):
        if p.grad is None:
            return None
        return p.grad.mul_(2)


class Invents(Signs):
    def gradient(self, p):
        if p.grad is None:
            return torch.ones_like(p)
        return p.grad


class Raises(Signs):
    def gradient(self, p):
        raise ArithmeticError("no step can be taken\nfor many reasons")


class OnlyFirstGroup(Signs):
    def groups(self):
        return self.param_groups[:1]


class NoBiases(Signs):
    def gradient(self, p):
        if p.dim() == 1:
            return None
        return p.grad


class OwnDecay(Signs):
    def decay(self, group):
        return self.defaults["weight_decay"]


class Rewrites(Signs):
    def end(self):
        self.param_groups[0]["lr"] *= 0.99


class NoGradients(Signs):
    def step(self, closure=None):
        super().step(closure)
        torch.set_grad_enabled(False)


class Patches(Signs):
    def end(self):
        F.cross_entropy = zero_loss


def zero_loss(*values, **options):
    return torch.zeros((), requires_grad=True)


class Freezes(Signs):
    def end(self):
        self.params()[3].requires_grad_(self.steps < 10)


class Hoards(Signs):
    def end(self):
        self.remembered[self.steps] = self.params()[0].clone()


class Slows(Signs):
    def end(self):
        sum(range(4 * self.steps**2))


class Lagging(Signs):
    def rate(self, group):
        before = self.remembered.get("lr", group["lr"])
        self.remembered["lr"] = group["lr"]
        return before + group["lr"]


class Unseeded(Signs):
    def gradient(self, p):
        own = torch.Generator()
        own.seed()
        if p.grad is None:
            return None
        return p.grad + torch.randn(p.shape, generator=own)


class Divides(Signs):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    direction = p.grad / p.grad.norm()
                    p.sub_(direction * group["lr"])


class Lookahead(Signs):
    def end(self):
        if self.steps % 5 == 0:
            for p in self.params():
                slow = self.remembered.setdefault(p, p.clone())
                p.copy_(slow.lerp_(p, 0.5))


class Settings(Signs):
    def end(self):
        if self.steps == 38:
            torch.set_default_dtype(torch.float64)
            torch.set_num_threads(2)
            torch.use_deterministic_algorithms(True)


class Forks(Signs):
    def end(self):
        if self.steps == 2 and os.fork():
            os.wait()


class Halves(Signs):
    def end(self):
        if self.steps == 10:
            p = self.params()[3]
            p.data = p.data.bfloat16()


class Sharp(Signs):
    """Takes the gradients that are there, and new ones."""

    @torch.no_grad()
    def step(self, closure):
        norms = [p.grad.norm() for p in self.params() if p.grad is not None]
        norm = torch.stack(norms).norm()
        old = [p.clone() for p in self.params()]
        for p in self.params():
            p.add_(p.grad * (0.05 / (norm + 1e-12)))
        with torch.enable_grad():
            loss = closure()
        for p, start in zip(self.params(), old, strict=True):
            p.copy_(start - self.param_groups[0]["lr"] * p.grad)
        return loss


class Curved(Signs):
    """Its authors' loop updates the curvature."""

    def average(self, p):
        self.state[p].setdefault("curvature", torch.zeros_like(p))
        return super().average(p)

    def update_curvature(self):
        for p in self.params():
            self.state[p]["curvature"].add_(p.grad.square())


class SharedCount(Signs):
    """Counts the steps of all groups together, and warms up by the count."""

    def decay(self, group):
        self.steps += 1
        return super().decay(group)

    def rate(self, group):
        return group["lr"] * min(1.0, self.steps / 20)


class Masters(Signs):
    """Steps from copies that the constructor made of weights in bfloat16."""

    low = torch.bfloat16

    def __init__(self, params, **options):
        super().__init__(params, **options)
        for p in self.params():
            if p.dtype == self.low:
                self.state[p]["master"] = p.detach().to(torch.float32, copy=True)

    def average(self, p):
        if "master" in self.state[p]:
            p.copy_(self.state[p]["master"])
        return super().average(p)

    def end(self):
        for p in self.params():
            if "master" in self.state[p]:
                self.state[p]["master"] = p.to(torch.float32, copy=True)


class Masters32(Masters):
    low = torch.float32


class Clips(Signs):
    def groups(self):
        torch.nn.utils.clip_grad_norm_(self.params(), 5.0)
        return self.param_groups


class WarmsUp(Signs):
    """Counts its steps in an attribute, and warms up by it. Another attribute differs from itself."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.lowest = math.nan

    def rate(self, group):
        return group["lr"] * min(1.0, self.steps / 20)


class Skips(Signs):
    """Skips the steps of a gradient that is larger than usual."""

    def groups(self):
        norm = float(torch.stack([p.grad.norm() for p in self.params() if p.grad is not None]).norm())
        usual = self.remembered.get("norm", norm / 2)
        self.remembered["norm"] = 0.5 * usual + 0.5 * norm
        return [] if norm > usual else self.param_groups


class Breaks(Signs):
    """Ends, crashes or hangs in different checks, and forks in each."""

    @torch.no_grad()
    def step(self, closure=None):
        first = self.params()[0]
        if self.defaults["lr"] < 1e-3:
            os._exit(4)
        if closure is not None:
            time.sleep(1000)
        if first.grad is None:
            os._exit(3)
        if first.grad.is_sparse:
            sys.exit("this is the end")
        if not first.grad.any():
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.steps == 4 or len(self.params()) == 4:
            raise ArithmeticError("neither long trainings nor small models")
        if self.steps == 0:
            os.fork()
        return super().step()
