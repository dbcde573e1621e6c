"""A planner of `torch.distributed.checkpoint` with which PsiLogic takes over a training of AdamW."""

from inspect import signature

from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import LoadPlan
from torch.optim import AdamW

from psilogic.checkpoint import FROM_ADAMW, OWN_STATE
from psilogic.optimizer import PsiLogic

OWN_OPTIONS = {*signature(PsiLogic).parameters, "schema"} - {*signature(AdamW).parameters}
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
        """The plan of this rank.

        Raises:
            RuntimeError: a key is missing that AdamW has too.
        """
        strict, self.allow_partial_load = not self.allow_partial_load, True
        plan = super().create_local_plan()
        self.allow_partial_load = not strict
        saved = self.metadata.state_dict_metadata if self.metadata else {}
        own = {key for key in self.state_dict if _name(key) in OWN_STATE}
        own |= {key for key in self.state_dict if _name(key) in OWN_OPTIONS and "param_groups." in key}
        missing = [key for key in self.state_dict if key not in saved]
        if own.isdisjoint(saved):
            missing = [key for key in missing if key not in own] if strict else missing
            for key in own:
                if _name(key) == "schema":
                    set_element(self.original_state_dict, self.mappings[key], FROM_ADAMW)
        if strict and missing:
            raise RuntimeError(f"Missing key in checkpoint state_dict: {missing[0]}.")
        return plan


def _name(key: str) -> str:
    """The last name of a flattened key."""
    return key.rpartition(".")[2]
