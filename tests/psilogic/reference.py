"""PsiLogic one float at a time: the paper's equations, in the paper's order, with nothing but `math`.

The reference of the tests. It shares no code with the package and is not optimized: a tensor is a shape and a flat
list of Python floats (which are float64).
"""

import math
from dataclasses import dataclass, field

DEFAULTS = {
    "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-4, "gamma": 0.05, "p_ext": 1.0,
    "max_cancel": 0.05, "adaptive_tau": True, "tau_scale": 2.0, "chaos_tau": 0.5, "chaos_warmup": -1,
    "total_steps": 0, "gamma_T_max": 0, "quantum_decay": 0.0, "agc_clip": 0.0, "agc_norm": "unit",
    "grad_centralize": False, "chaos_signal": "raw", "chaos_scope": "tensor", "maximize": False,
}  # fmt: skip


@dataclass
class Tensor:
    """A parameter theta with Adam's moments m and v, and its chaos detector."""

    shape: tuple
    theta: list
    step: int = 0
    exp_avg: list = field(default_factory=list)
    exp_avg_sq: list = field(default_factory=list)
    chaos_fast: float = 0.0
    chaos_slow: float = 0.0
    chaos_ref: float = 0.0
    detector_age: int = 0

    def __post_init__(self):
        self.exp_avg = [0.0] * len(self.theta)
        self.exp_avg_sq = [0.0] * len(self.theta)


@dataclass
class Decision:
    """The detector's decision for one tensor in one step, kept for the tests."""

    s: int = 0
    w: float = 0.0
    raw_cancellation: float = 0.0
    c: float = 0.0


def norm(values):
    return math.sqrt(sum(x * x for x in values))


def rows(values, shape):
    """The units of a tensor: the rows of dimension 0, or the whole tensor when it has at most one dimension."""
    if len(shape) <= 1:
        return [values]
    length = len(values) // shape[0] if shape[0] else 0
    return [values[i * length : (i + 1) * length] for i in range(shape[0])]


# The gradient: global clipping, adaptive clipping, centralization.


def clip_coefficient(gradients, max_norm):
    """The factor of torch.nn.utils.clip_grad_norm_ over all the gradients together."""
    total = norm([x for g in gradients for x in g])
    coefficient = max_norm / (total + 1e-6)
    return 1.0 if coefficient > 1.0 else coefficient


def adaptive_clip(g, theta, shape, clip, unit):
    """AGC (Brock et al. 2021): no unit's gradient is longer than `clip` times its parameters."""
    if unit == "tensor":
        shape = ()
    clipped = []
    for g_row, theta_row in zip(rows(g, shape), rows(theta, shape), strict=True):
        length, longest = norm(g_row), clip * max(norm(theta_row), 1e-3)
        too_long = longest < length < math.inf  # a norm that is not finite would spread over the unit
        clipped += [x * longest / length for x in g_row] if too_long else g_row
    return clipped


def centralize(g, shape):
    """GC (Yong et al. 2020): the mean over dimensions 1.. is subtracted."""
    if len(shape) <= 1:
        return g
    return [x - sum(row) / len(row) for row in rows(g, shape) for x in row]


def processed(g, tensor, h):
    if h["agc_clip"] > 0:
        g = adaptive_clip(g, tensor.theta, tensor.shape, h["agc_clip"], h["agc_norm"])
    if h["grad_centralize"]:
        g = centralize(g, tensor.shape)
    return g


def scaled_norm(gradients):
    """gn = ||g||_2 / sqrt(numel), over one tensor or over several pooled."""
    pooled = [x for g in gradients for x in g]
    return norm(pooled) / math.sqrt(len(pooled)) if pooled else 0.0


# The detector.


def observe(tensor, gn, h):
    """Feed gn to the tensor's fast and slow EMAs; the relative signal starts at the first gn that is not zero."""
    if h["chaos_signal"] == "relative":
        if tensor.chaos_ref == 0:
            tensor.chaos_ref = gn
            tensor.chaos_fast = tensor.chaos_slow = 1.0
            return
        tensor.chaos_ref = 0.99 * tensor.chaos_ref + 0.01 * gn
        gn = gn / (tensor.chaos_ref + h["eps"])
    tensor.chaos_fast = 0.90 * tensor.chaos_fast + 0.10 * gn
    tensor.chaos_slow = 0.99 * tensor.chaos_slow + 0.01 * gn


def chaos(tensor, h):
    ratio = tensor.chaos_fast / (tensor.chaos_slow + h["eps"])
    return math.tanh(tensor.chaos_slow) * (1 + 0.5 * math.tanh(max(ratio - 1, 0.0)))


def gate(tensor, h):
    """The spike mask s."""
    if not h["adaptive_tau"]:
        return int(tensor.chaos_slow >= h["chaos_tau"])
    margin = h["eps"] if h["chaos_signal"] == "relative" else 0.0
    return int(tensor.chaos_fast > h["tau_scale"] * tensor.chaos_slow + margin)


# Schedules.


def warmup_weight(t, h):
    """w: 0 until t_warm, then linearly to 1 within t_warm / 4 steps."""
    t_warm = h["chaos_warmup"]
    if t_warm == -1:
        t_warm = max(500, (h["total_steps"] or h["gamma_T_max"]) / 20)
    if t_warm == 0:
        return 1.0
    return min(max((t - t_warm) / (t_warm / 4), 0.0), 1.0)


def cosine(t, horizon):
    """The factor on gamma and q; constant without a horizon."""
    return 0.5 * (1 + math.cos(math.pi * min(t / horizon, 1))) if horizon else 1.0


def decide(tensor, gn, h):
    """s, w and c for one tensor. Without a finite norm the memory stays and nothing is cancelled."""
    tensor.detector_age += 1
    if not math.isfinite(gn):
        return Decision()
    observe(tensor, gn, h)
    s, w = gate(tensor, h), warmup_weight(tensor.detector_age, h)
    gamma = h["gamma"] * cosine(tensor.step, h["gamma_T_max"])
    raw = s * chaos(tensor, h) * h["lr"] * gamma * h["p_ext"]
    return Decision(s, w, raw, min(raw, h["max_cancel"]))


# The update.


def update(tensor, g, decision, h):
    """Decay, quantum decay, then Adam."""
    lr, (beta1, beta2), t = h["lr"], h["betas"], tensor.step
    s, w, c = decision.s, decision.w, decision.c
    delta = lr * h["weight_decay"] + w * c
    q = h["quantum_decay"] * cosine(t, h["gamma_T_max"])
    for i, g_i in enumerate(g):
        theta = tensor.theta[i] * (1 - delta)
        if h["quantum_decay"] > 0:
            theta *= 1 - lr * q * w * (1 - s) * math.tanh(abs(g_i))
        tensor.exp_avg[i] = m = beta1 * tensor.exp_avg[i] + (1 - beta1) * g_i
        tensor.exp_avg_sq[i] = v = beta2 * tensor.exp_avg_sq[i] + (1 - beta2) * g_i * g_i
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        tensor.theta[i] = theta - lr * m_hat / (math.sqrt(v_hat) + h["eps"])


class ReferencePsiLogic:
    """Groups of `Tensor`s; `step` takes one flat gradient (or None) per tensor, in the groups' order."""

    def __init__(self, groups, max_grad_norm=None, **hyperparameters):
        self.groups = [{**DEFAULTS, **hyperparameters, **group} for group in groups]
        self.max_grad_norm = max_grad_norm
        self.tensors = [tensor for group in self.groups for tensor in group["params"]]
        self.decisions = []

    def step(self, gradients):
        members = [(tensor, group) for group in self.groups for tensor in group["params"]]
        live = [(p, h, g) for (p, h), g in zip(members, gradients, strict=True) if g is not None]
        scale = 1.0 if self.max_grad_norm is None else clip_coefficient([g for *_, g in live], self.max_grad_norm)
        live = [(p, h, [-x * scale if h["maximize"] else x * scale for x in g]) for p, h, g in live]
        live = [(p, h, processed(g, p, h)) for p, h, g in live]
        signals = [self.signal(p, h, g, live) for p, h, g in live]
        for (tensor, h, g), gn in zip(live, signals, strict=True):
            tensor.step += 1
            decision = decide(tensor, gn, h)
            update(tensor, g, decision, h)
            self.decisions.append(decision)

    @staticmethod
    def signal(tensor, h, g, live):
        """The gn that this tensor's detector sees: its own, or pooled over its group, or over all global groups."""
        if h["chaos_scope"] == "tensor":
            return scaled_norm([g])

        def in_pool(group):
            return group is h if h["chaos_scope"] == "group" else group["chaos_scope"] == "global"

        return scaled_norm([other for _, group, other in live if in_pool(group)])
