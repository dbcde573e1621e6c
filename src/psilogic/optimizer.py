"""PsiLogic: Adam with a chaos-gated multiplicative damping, as a `torch.optim.Optimizer`."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from psilogic.checkpoint import mark
from psilogic.description import describe
from psilogic.hyperparameters import check_changes, check_group, check_hyperparameters
from psilogic.loading import complete, load
from psilogic.misspelled import warn_of_misspelled
from psilogic.monitor import Monitor, monitor
from psilogic.options import defaults_of
from psilogic.published_calls import check_order, refusing
from psilogic.stages import Steps
from psilogic.step import Observable
from psilogic.step_lock import StepLock
from psilogic.tensors.norms import simulation
from psilogic.tensors.sharding import refuse_hidden
from psilogic.warmup import warn_of_a_longer_training, warn_of_a_short_training


class PsiLogic(Observable):
    r"""Adam with decoupled weight decay and a chaos-gated active cancellation.

    For each tensor with gradient g (after global clipping, AGC and centralization, in that order), as in
    `psilogic.reference`:

    .. math::
        gn = \|g\|_2 / \sqrt{numel}, \quad fast = 0.90 fast + 0.10 gn, \quad slow = 0.99 slow + 0.01 gn \\
        chaos = \tanh(slow) (1 + 0.5 \tanh(relu(fast / (slow + eps) - 1))), \quad s = [fast > tau\_scale \cdot slow] \\
        c = \min(s \cdot chaos \cdot lr \cdot \gamma_t \cdot p\_ext, max\_cancel) \\
        \delta = lr \cdot weight\_decay + w \cdot c \\
        \theta \leftarrow \theta (1 - \delta) \\
        \theta \leftarrow \theta (1 - lr \cdot q_t \cdot w (1 - s) \tanh|g|) \\
        \theta \leftarrow \theta - lr \cdot \hat m / (\sqrt{\hat v} + eps)

    With the defaults the first 500 steps are those of ``torch.optim.AdamW`` with the same hyperparameters, or the first
    twentieth of `total_steps` if that is more; from step 625 on the cancellation is complete (`chaos_warmup`). If
    `total_steps` is no longer than that, a warning says so: ``chaos_warmup=0.05`` waits for a twentieth of any length.
    With ``gamma=0`` and ``quantum_decay=0`` every step is AdamW's.

    The state has three scalars per tensor more than AdamW's (four with ``chaos_signal="relative"``). Norms, AGC and
    centralization treat whole tensors, also if ranks hold pieces of them (DTensor). When gn is not finite (in float32
    from a norm of 1.8e19 on) the step is AdamW's and the detector keeps its memory; after an overflow that
    `torch.amp.GradScaler` found nothing changes.

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, >= 0; a number or a tensor with one element.
        betas: decay rates of Adam's moments, each in [0, 1); numbers, or tensors that each step reads.
        eps: added to the denominator, outside the root; >= 0; likewise.
        weight_decay: decoupled weight decay lambda, >= 0.
        amsgrad: only False, for code that passes AdamW's arguments.
        gamma: chaos gain, >= 0; 0 switches active cancellation off.
        p_ext: chaos amplification factor P_k of the group, >= 0.
        max_cancel: the largest share of theta that one step may cancel, in [0, 1].
        adaptive_tau: gate on fast > tau_scale * slow; otherwise on slow >= chaos_tau.
        tau_scale: ratio of the EMAs above which a tensor spikes, >= 0.
        chaos_tau: threshold of the gate when `adaptive_tau` is off, >= 0.
        chaos_warmup: steps without chaos term, after which it ramps up over a quarter of them; -1 means
            max(500, T/20), where T is `total_steps`, or `gamma_T_max` if that is 0, and 500 if both are 0. A value
            between 0 and 1 is a share of T: 0.05 is T/20 without the minimum of 500.
        total_steps: length of the training in steps, 0 when unknown; only `chaos_warmup` reads it.
        gamma_T_max: steps of the cosine schedule of gamma and quantum_decay; 0 keeps them constant.
        quantum_decay: q_0, rate of the gradient-dependent decay on quiet steps, >= 0; 0 switches it off.
        agc_clip: adaptive gradient clipping at this ratio of gradient norm to parameter norm; 0 is off.
        agc_norm: "unit" clips rows of dimension 0 (the whole tensor when ndim <= 1), "tensor" whole tensors.
        grad_centralize: subtract the gradient's mean over all dimensions but the first, when ndim > 1.
        chaos_signal: the detector's input: "raw" is gn (the paper); "relative" is gn divided by its 0.99-EMA, which
            starts at the first gn that is not zero.
        chaos_scope: "tensor" (a detector for each tensor), "group" or "global": the norm and the number of
            elements are pooled over the group, or over all groups with this scope.
        max_grad_norm: clip the global gradient norm inside the step; None is off. Equal to `clip_grad_norm_` before
            the step (one NaN reaches every tensor), but `p.grad` is not changed. The same in all groups.
        bf16_update: how bfloat16 parameters are rounded: "nearest" as in torch, where a decay below half an ulp has no
            effect; "stochastic" with an exact mean; "kahan" keeps the error (another 2 bytes per element).
        maximize: maximize the objective.
        foreach: where torch's foreach operations update, see `fused`: with True or None all tensors at once, with False
            few at a time, whose copies take no more memory than those of the largest tensor.
        fused: None runs psilogic's compiled kernels on a CPU (torch's fused kernel where they were not compiled),
            Triton's on an NVIDIA GPU (foreach, after a warning, where it cannot compile), and foreach elsewhere and for
            layouts that these do not support; `executed` counts the tensors of the last step by backend. False is
            foreach everywhere. True is an error in the first step if devices, dtypes and options of a group admit
            nothing fused. On a GPU, and for float16, it announces to `torch.amp.GradScaler` that the step unscales by
            itself.
        capturable: keep `step` on the parameter's device.
        differentiable: record the step for autograd; bfloat16 parameters are then rounded to nearest. The same in
            all groups.

    Raises:
        ValueError: a hyperparameter is out of its range; the message names it and its value.
        TypeError: the call has an argument or the order of the published package psilogic 0.3 to 0.6.
        RuntimeError: the parameters are those of FSDP1, or ZeRO-1 makes an optimizer that pools or clips over tensors.

    Example:
        >>> model = torch.nn.Linear(8, 2)
        >>> optimizer = PsiLogic(model.parameters(), lr=1e-3, weight_decay=0.01, total_steps=10_000)
        >>> model(torch.ones(4, 8)).square().mean().backward()
        >>> optimizer.step()
        >>> optimizer.zero_grad()
        >>> optimizer
        PsiLogic(lr=0.001, weight_decay=0.01, total_steps=10000, 2 tensors of 18 elements)

    Reference: the PsiLogic paper, section 3; `docs/psilogic.md` defines the details that the paper leaves open.
    """

    @refusing(check_order)
    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float | Tensor = 1e-8,
        weight_decay: float = 1e-4,
        amsgrad: bool = False,
        *,
        gamma: float = 0.05,
        p_ext: float = 1.0,
        max_cancel: float = 0.05,
        adaptive_tau: bool = True,
        tau_scale: float = 2.0,
        chaos_tau: float = 0.5,
        chaos_warmup: float = -1,
        total_steps: int = 0,
        gamma_T_max: int = 0,
        quantum_decay: float = 0.0,
        agc_clip: float = 0.0,
        agc_norm: str = "unit",
        grad_centralize: bool = False,
        chaos_signal: str = "raw",
        chaos_scope: str = "tensor",
        max_grad_norm: float | None = None,
        bf16_update: str = "nearest",
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = dict(locals())
        for name in ("self", "params", "__class__"):
            del defaults[name]
        super().__init__(params, check_hyperparameters(defaults))
        self._start_fresh()
        warn_of_a_short_training(self.param_groups)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled or loaded optimizer; it may be older than an option, which then has its default."""
        super().__setstate__(state)
        if "_steps" not in self.__dict__:
            self._start_fresh()
        if "defaults" in state:  # it is pickled
            self.defaults = {**DEFAULTS, **self.defaults}
        complete(self)

    def __repr__(self) -> str:
        """The hyperparameters that differ from the defaults, and what the groups contain."""
        return describe(self, DEFAULTS)

    def _start_fresh(self) -> None:
        """Set the attributes that are not state; neither copies nor pickles contain them."""
        self.executed = Counter()
        self._unscales: bool | None = None  # None unless a user has set it
        self._lock = StepLock()
        self._taken = 0  # steps of this process that were not compiled
        self._called = {"step": False}  # a compiled step can change a dictionary, but no attribute
        self.observers = []
        self._steps = Steps()
        for group in self.param_groups:
            self._steps.give(group["params"])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, after a check of its hyperparameters.

        Raises:
            ValueError: naming the argument and its value; the optimizer is not changed then.
            TypeError: the group has an argument of the published package only; the optimizer is not changed then.
            RuntimeError: its parameters are those of FSDP1, or ZeRO-1 hides tensors whose norms it needs; the optimizer
                is not changed then.
        """
        is_constructed = "_steps" in self.__dict__
        if isinstance(param_group, dict):
            has_only_defaults = len(param_group) == 1
            if has_only_defaults:  # which the constructor has checked
                check_changes([*self.param_groups[:1], self.defaults])
            else:
                # of the line that calls this method, or the constructor
                warn_of_misspelled(param_group, stacklevel=3 if is_constructed else 6)
                complete = {**self.defaults, **param_group}
                param_group.update(check_group(complete, self.param_groups))
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        mark(group)
        try:
            refuse_hidden(group)
        except RuntimeError:
            self.param_groups.pop()
            raise
        if is_constructed:
            self._steps.give(group["params"])

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether `torch.amp.GradScaler` leaves unscaling to the step; it asks before each."""
        if self._unscales is not None:
            return self._unscales
        for group in self.param_groups:
            if group.get("fused") and any(map(_is_unscaled_by_the_step, group["params"])):
                return True
        return False

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        """Users set it whose library refuses to clip gradients that the step unscales."""
        self._unscales = value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of a PsiLogic, of torch's Adam or AdamW, or of the published package psilogic 0.3 to 0.6.

        After loading from Adam or AdamW, the detector and its warm-up start. The detector's scalars keep their
        precision, also with half-precision parameters. Hyperparameters in the state dict replace the optimizer's.

        Args:
            state_dict: the result of a `state_dict()`; it is not changed.

        Raises:
            ValueError: a newer psilogic wrote it, or it does not fit this optimizer; nothing is changed then.
        """
        load(self, state_dict, super().load_state_dict)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one optimization step.

        Args:
            closure: reevaluates the model and returns the loss.

        Returns:
            The closure's loss, None without a closure.

        Raises:
            RuntimeError: a gradient is sparse, a library put a flat partition into a group (DeepSpeed's ZeRO), or
                `fused=True` cannot be honored; nothing is changed then.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self.param_groups:
            return loss
        first = self.param_groups[0]
        self._called["step"] = "initial_lr" in first  # as in torch, only if a scheduler was made before
        if torch.compiler.is_compiling():
            with torch.set_grad_enabled(first["differentiable"]):
                self._steps.take(self)
            return loss
        # Wait until no other thread is in a step: two would count one step, and share what is cached.
        with self._lock.of_this_process(), torch.set_grad_enabled(first["differentiable"]), simulation(first["params"]):
            if first["total_steps"]:
                self._taken += 1
                warn_of_a_longer_training(first, self._taken)
            self._steps.take(self)
        return loss

    def mechanism(self, named_parameters: Iterable[tuple[str, Tensor]] = ()) -> Monitor:
        """Attach a `psilogic.monitor` to this optimizer.

        Args:
            named_parameters: names of the parameters, as `model.named_parameters()`.

        Returns:
            The monitor; benchmarks read its `quantities`.
        """
        return monitor(self, named_parameters)

    # A learning-rate scheduler wraps a step without this mark to set `_opt_called`; torch.compile cannot trace that.
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]

    @property
    def _opt_called(self) -> bool:
        """Whether a step was taken; schedulers warn if theirs comes first."""
        return self._called["step"]

    @_opt_called.setter
    def _opt_called(self, value: bool) -> None:
        """Ignored: wrapped steps of subclasses set it, but the step itself does too."""


def _is_unscaled_by_the_step(p: Tensor) -> bool:
    """Whether a fused step unscales the gradient of p: GradScaler would wait for a GPU, and refuses float16.

    In host memory it takes less time than the step, which can then no longer update while it sums.
    """
    return not p.is_cpu or p.dtype == torch.float16


DEFAULTS = defaults_of(PsiLogic)
"""The default of every option, from the one table of them: the constructor's signature."""
