"""A planner of `torch.distributed.checkpoint` with which PsiLogic takes over a training of AdamW."""

from collections.abc import Iterable
from inspect import signature

from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import LoadPlan
from torch.optim import AdamW

from psilogic.checkpoint import FROM_ADAMW, OWN_STATE
from psilogic.optimizer import PsiLogic

OWN_OPTIONS = {*signature(PsiLogic).parameters, "schema"}.difference(signature(AdamW).parameters)
"""Keys of PsiLogic's parameter groups that AdamW's lack."""


class LoadPlanner(DefaultLoadPlanner):
    """The default planner, which also takes checkpoints that AdamW wrote.

    `dcp.load` reads what the loading optimizer has, and fails at the first key that the checkpoint lacks. If it lacks
    everything that PsiLogic has more than AdamW, hyperparameters keep their values, and the schema of the groups says
    that the detector starts. All other missing keys are errors, unless `allow_partial_load=True`.

    Example:
        >>> import torch, torch.distributed.checkpoint as dcp
        >>> from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> model = torch.nn.Linear(2, 1)
        >>> def state_of(optimizer):
        ...     return {"optimizer": get_optimizer_state_dict(model, optimizer)}
        >>> _ = dcp.save(state_of(AdamW(model.parameters(), lr=0.5)), checkpoint_id=folder, no_dist=True)
        >>> loaded = state_of(PsiLogic(model.parameters()))
        >>> dcp.load(loaded, checkpoint_id=folder, planner=LoadPlanner(), no_dist=True)
        >>> loaded["optimizer"]["param_groups"][0]["lr"]
        0.5
    """

    def create_local_plan(self) -> LoadPlan:
        """The plan of this rank, for a checkpoint of PsiLogic or of AdamW.

        Raises:
            RuntimeError: a key is missing that AdamW has too.
        """
        plan = self._partial_plan()
        saved = self.metadata.state_dict_metadata if self.metadata else {}
        own = [key for key in self.state_dict if _is_own(key)]
        from_adamw = not any(key in saved for key in own)
        if from_adamw:
            self._set_schemas(own)
        if self.allow_partial_load:
            return plan
        for key in self.state_dict:
            adamw_lacks_it = from_adamw and _is_own(key)
            if key not in saved and not adamw_lacks_it:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {key}.")
        return plan

    def _partial_plan(self) -> LoadPlan:
        """The default planner's plan, which leaves out the keys that the checkpoint lacks."""
        allowed = self.allow_partial_load
        self.allow_partial_load = True
        try:
            return super().create_local_plan()
        finally:
            self.allow_partial_load = allowed

    def _set_schemas(self, keys: Iterable[str]) -> None:
        """Let the schema of each group say that its state came from AdamW."""
        for key in keys:
            if _name(key) == "schema":
                path = self.mappings[key]  # its keys in the nested state
                set_element(self.original_state_dict, path, FROM_ADAMW)


def _is_own(key: str) -> bool:
    """Whether a flattened key is one of PsiLogic's that AdamW lacks: of a parameter's state or of a group."""
    name = _name(key)
    return name in OWN_STATE or (name in OWN_OPTIONS and "param_groups." in key)


def _name(key: str) -> str:
    """The last name of a flattened key."""
    return key.rpartition(".")[2]
