"""PsiLogic: Adam with a chaos-gated multiplicative damping, as a `torch.optim.Optimizer`."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from psilogic import checkpoint, updates
from psilogic.decision import Decision
from psilogic.gradients import Rescaling
from psilogic.hyperparameters import check_group, check_hyperparameters
from psilogic.tensors.buckets import Known, collect
from psilogic.tensors.sharding import Sharding
from psilogic.updates.work import Settled, Work

Observer = Callable[[list[Tensor], dict[str, Any], Decision], None]


class PsiLogic(Optimizer):
    r"""Adam with decoupled weight decay and a chaos-gated active cancellation.

    For each tensor with gradient g (after global clipping, AGC and centralization, in that order):

    .. math::
        gn = \|g\|_2 / \sqrt{numel}, \quad fast = 0.90 fast + 0.10 gn, \quad slow = 0.99 slow + 0.01 gn \\
        chaos = \tanh(slow) (1 + 0.5 \tanh(relu(fast / (slow + eps) - 1))), \quad s = [fast > tau\_scale \cdot slow] \\
        c = \min(s \cdot chaos \cdot lr \cdot \gamma_t \cdot p\_ext, max\_cancel) \\
        \delta = lr \cdot weight\_decay + w \cdot c \\
        \theta \leftarrow \theta (1 - \delta) \\
        \theta \leftarrow \theta (1 - lr \cdot q_t \cdot w (1 - s) \tanh|g|) \\
        \theta \leftarrow \theta - lr \cdot \hat m / (\sqrt{\hat v} + eps)

    With ``gamma=0`` and ``quantum_decay=0`` it is ``torch.optim.AdamW``. State beyond AdamW's is three scalars
    per tensor (four with ``chaos_signal="relative"``). Adam's moments have the parameter's dtype, as in torch.
    After `torch.amp.GradScaler` found an overflow, nothing changes.
    Norms, AGC and centralization are those of whole tensors, also where ranks hold pieces of them (DTensor, FSDP1).
    When gn is not finite (in float32 from a norm of 1.8e19 on) the detector keeps its memory and cancels nothing in
    that step; elements behave as in AdamW.

    Args:
        params: parameters, named parameters or parameter groups.
        lr: learning rate, >= 0; a number or a tensor with one element.
        betas: decay rates of Adam's moments, each in [0, 1).
        eps: added to the denominator, outside the root; >= 0.
        weight_decay: decoupled weight decay lambda, >= 0.
        gamma: chaos gain, >= 0; 0 switches active cancellation off.
        p_ext: chaos amplification factor P_k of the group, >= 0.
        max_cancel: the largest share of theta that one step may cancel, in [0, 1].
        adaptive_tau: gate on fast > tau_scale * slow; otherwise on slow >= chaos_tau.
        tau_scale: ratio of the EMAs above which a tensor spikes, >= 0.
        chaos_tau: threshold of the gate when `adaptive_tau` is off, >= 0.
        chaos_warmup: steps without chaos term, after which it ramps up over a quarter of them; -1 means
            max(500, T/20) where T is `total_steps`, else `gamma_T_max`, and 500 when neither is known.
        total_steps: length of the training in steps, 0 when unknown; only `chaos_warmup` reads it.
        gamma_T_max: steps of the cosine schedule of gamma and quantum_decay; 0 keeps them constant.
        quantum_decay: q_0, rate of the gradient-dependent decay on quiet steps, >= 0; 0 switches it off.
        agc_clip: adaptive gradient clipping at this ratio of gradient norm to parameter norm; 0 is off.
        agc_norm: "unit" clips rows of dimension 0 (the whole tensor when ndim <= 1), "tensor" whole tensors.
        grad_centralize: subtract the gradient's mean over all dimensions but the first, when ndim > 1.
        chaos_signal: "raw" feeds gn to the detector (the paper); "relative" feeds gn divided by its own
            0.99-EMA, which starts at the first gn that is not zero.
        chaos_scope: "tensor" (a detector for each tensor), "group" or "global": the norm and the number of
            elements are pooled over the group, or over all groups with this scope.
        max_grad_norm: clip the global gradient norm inside the step, equal to `clip_grad_norm_` before it (also in
            that one NaN reaches every tensor), except that `p.grad` is left as it is; None is off. The same in all
            groups.
        bf16_update: how bfloat16 parameters are written. "nearest" rounds as torch does, so that a decay below half
            an ulp has no effect; "stochastic" rounds up or down so that the mean is exact; "kahan" keeps what is cut
            off in another bfloat16 tensor per parameter (2 bytes per element).
        maximize: maximize the objective.
        foreach: True takes torch's foreach operations for the update, False those too, one tensor after the other (less
            memory); None leaves it to `fused`, which comes first.
        fused: None takes, on a CPU, kernels of our own if the package was installed with them, else torch's fused
            kernel; both round less often than foreach. False never does. True also takes Triton's kernels on CUDA,
            which have never run on one, and announces to `torch.amp.GradScaler` that the step unscales by itself, as
            torch's optimizers do; where Triton cannot compile, a warning says so and foreach is taken. Where one of a
            group's tensors does not fit (its layout, say), those of its dtype and device are left to foreach; a True
            that nothing in the group fits is an error in the first step.
            `executed` counts the tensors of the last step by what ran: "native", "fused", "triton" or "foreach".
        capturable: keep `step` on the parameter's device.
        differentiable: let autograd run through the step; bfloat16 parameters are then rounded to nearest. The same
            in all groups.

    Raises:
        ValueError: a hyperparameter is out of its range; the message names it and its value.

    Reference: the PsiLogic paper, section 3; where it leaves a point open, `docs/update-rule.md` says what is done.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-4,
        *,
        gamma: float = 0.05,
        p_ext: float = 1.0,
        max_cancel: float = 0.05,
        adaptive_tau: bool = True,
        tau_scale: float = 2.0,
        chaos_tau: float = 0.5,
        chaos_warmup: int = -1,
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
        defaults = {name: value for name, value in locals().items() if name not in ("self", "params", "__class__")}
        check_hyperparameters(defaults)
        super().__init__(params, defaults)
        self._start_fresh()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled or loaded optimizer; groups saved by `torch.optim.AdamW` get PsiLogic's defaults."""
        super().__setstate__(state)
        if "_known" not in self.__dict__:
            self._start_fresh()
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def _start_fresh(self) -> None:
        """What an optimizer has beside its state; neither copies nor pickles take it with them."""
        self._announce_scaling()
        self.executed: Counter[str] = Counter()
        self._observers: list[Observer] = []
        self._sharding = Sharding()
        self._known: dict[int, Known] = {}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, after a check of its hyperparameters.

        Raises:
            ValueError: naming the argument and its value; the optimizer is then as before.
        """
        if isinstance(param_group, dict):
            check_group({**self.defaults, **param_group}, self.param_groups)
            param_group.setdefault("schema", checkpoint.SCHEMA)
        super().add_param_group(param_group)
        self._announce_scaling()

    def _announce_scaling(self) -> None:
        """Tell `torch.amp.GradScaler`, which looks for it, that the step unscales by itself, as torch's fused ones."""
        self._step_supports_amp_scaling = any(group.get("fused") for group in self.param_groups)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of a PsiLogic, of torch's Adam or AdamW, or of the published package psilogic 0.3 to 0.6.

        From Adam and AdamW the detector and its warm-up start at the moment of loading. The detector's scalars keep
        their precision beside half-precision parameters. What the state dict says of hyperparameters holds.

        Args:
            state_dict: what `state_dict()` returned; it is left as it is.

        Raises:
            ValueError: a newer psilogic wrote it, or it does not fit this optimizer; nothing is changed then.
        """
        migrated: dict[str, Any] = {}

        def migrate(_: Optimizer, loaded: dict[str, Any]) -> dict[str, Any]:
            migrated.update(checkpoint.migrate(loaded, self.param_groups))
            return migrated

        def restore(_: Optimizer) -> None:
            params = [p for group in self.param_groups for p in group["params"]]
            saved_ids = [key for group in migrated["param_groups"] for key in group["params"]]
            checkpoint.restore_scalars(params, saved_ids, migrated["state"], self.state)

        # After the caller's hooks before loading, which may return another dict, and before those after loading.
        hooks = [
            self.register_load_state_dict_pre_hook(migrate),
            self.register_load_state_dict_post_hook(restore, prepend=True),
        ]
        try:
            super().load_state_dict(state_dict)
        finally:
            for hook in hooks:
                hook.remove()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one optimization step.

        Args:
            closure: reevaluates the model and returns the loss.

        Returns:
            The closure's loss, None without one.

        Raises:
            RuntimeError: a gradient is sparse, a parameter is sharded in a way that hides its tensors (FSDP1 without
                original parameters), or `fused=True` cannot be honoured; nothing has been changed then.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.set_grad_enabled(self.param_groups[0]["differentiable"]):
            self._step()
        return loss

    def mechanism(self, named_parameters: Iterable[tuple[str, Tensor]] = ()) -> Any:
        """Watch the chaos detector from now on: the `psilogic.monitor` of this optimizer.

        Args:
            named_parameters: names of the parameters, as `model.named_parameters()`.

        Returns:
            The monitor, whose `quantities` benches read.
        """
        from psilogic.monitor import monitor  # which needs this class

        return monitor(self, named_parameters)

    # torch.compile cannot trace the wrapper that a learning-rate scheduler puts around a step without this mark. The
    # wrapper is there to set `_opt_called`.
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]

    @property
    def _opt_called(self) -> bool:
        """Whether a step was taken; schedulers warn when theirs comes first."""
        return bool(self.state)

    @_opt_called.setter
    def _opt_called(self, value: bool) -> None:
        """Wrapped steps of subclasses set it; the state says the same."""

    def _step(self) -> None:
        """All of the step but the closure; parameters and state change only when nothing speaks against it."""
        self.executed = Counter()
        found_inf, grad_scale = (getattr(self, name, None) for name in ("found_inf", "grad_scale"))
        buckets = collect(self, self._sharding, self._known)
        if not buckets:
            return
        works = updates.prepare(buckets, self.state, scaled=found_inf is not None or grad_scale is not None)
        decider = updates.decider(works)
        before = [decider.before(work) for work in works]
        measured, found_inf = updates.measure(works, before, found_inf)
        if found_inf is not None and (self._observers or not all(work.execution.skips for work in works)):
            if found_inf.item():
                return
            found_inf = None  # where it is kept, the updates ask for it on the device
        rescaling = Rescaling.of(measured, self.param_groups[0]["max_grad_norm"], grad_scale)
        settled = decider.decide(works, before, measured, rescaling, found_inf, bool(self._observers))
        updates.update_(works, measured, settled, found_inf)
        self._tell(works, settled)

    def _tell(self, works: list[Work], settled: list[Settled]) -> None:
        """Say what ran, and to the observers what was decided."""
        for work, decided in zip(works, settled, strict=True):
            if work.states:
                self.executed[work.execution.name] += len(work.states)
                for observer in self._observers:
                    assert decided.decision is not None  # it is there if somebody watches
                    observer(work.mine.params, work.mine.group, decided.decision)
