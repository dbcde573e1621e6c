"""Sharded parameters: refused, rather than judged by the norm of one shard."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from psilogic import PsiLogic


def test_a_sharded_parameter_is_refused_before_any_state_is_touched() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        plain = torch.ones(3, requires_grad=True)
        sharded = distribute_tensor(torch.ones(4, 2), init_device_mesh("cpu", (1,)), [Shard(0)]).requires_grad_()
        optimizer = PsiLogic([plain, sharded])
        for p in (plain, sharded):
            p.grad = torch.ones_like(p)
        with pytest.raises(RuntimeError, match="sharded parameters"):
            optimizer.step()
        assert torch.equal(plain, torch.ones(3))
        assert not optimizer.state
    finally:
        dist.destroy_process_group()
