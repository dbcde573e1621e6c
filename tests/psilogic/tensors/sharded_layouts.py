"""All ways to shard parameters over processes, and the part of each parameter on each process."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

# On four processes some of these leave a process without elements, others with fewer than its neighbors.
SHAPES = ((1, 7), (3,), (5, 4), (2, 3, 2, 2), (1,), (3, 2), (4, 1), (5,))
WITH_SCALAR = ((), (0, 3), *SHAPES)
LINEAR = ((5, 4), (5,), (3, 5), (3,), (4,), (3, 2))  # Linear(4, 5), Linear(5, 3) and two other parameters


@dataclass
class Share:
    """The part of a parameter on this process."""

    param: Tensor
    index: Tensor  # of the elements of the flattened whole tensor that this process holds, in their shape here
    placements: tuple | None = None  # of the gradient; those of the parameter when None
    owner: nn.Module | None = None  # the wrapped module, which must live as long as its parameters do

    def of(self, whole: Tensor) -> Tensor:
        """The elements of this process of a whole tensor that is laid out like the parameter."""
        return whole.flatten()[self.index]

    def set_gradient(self, whole: Tensor | None) -> None:
        """Give the parameter its gradient as its wrapper does after a backward pass."""
        if whole is None:
            self.param.grad = None
        elif not isinstance(self.param, DTensor):
            self.param.grad = self.of(whole).clone()
        elif self.placements is None:
            how = {"run_check": False, "shape": whole.shape, "stride": whole.stride()}
            mesh, placements = self.param.device_mesh, self.param.placements
            self.param.grad = DTensor.from_local(self.of(whole), mesh, placements, **how)
        else:
            self.param.grad = _other_placement(whole, self.param.device_mesh, self.placements)


def local(x: Tensor) -> Tensor:
    """The part of a tensor that this process has, sharing its memory."""
    with torch.no_grad():
        return x.to_local() if isinstance(x, DTensor) else x.detach()


@dataclass(frozen=True)
class Scheme:
    """A layout of tensors over processes."""

    world: int
    place: Callable[[list[Tensor]], tuple[list[Tensor], nn.Module | None]]  # parameters here, their owner
    shapes: tuple = SHAPES
    grad_placements: Callable[[int], tuple | None] = lambda i: None  # of the i-th gradient, if not the parameter's

    def shares(self, wholes: list[Tensor]) -> list[Share]:
        """The whole tensors as this process has them.

        The elements are read from a second set of parameters with the same layout, which contain their positions:
        nothing is assumed about how a wrapper cuts.
        """
        positions = [torch.arange(w.numel(), dtype=w.dtype).reshape(w.shape) for w in wholes]
        indices = [local(p).long() for p in self.place(positions)[0]]
        params, owner = self.place([w.detach().clone() for w in wholes])
        pairs = enumerate(zip(params, indices, strict=True))
        return [Share(p, index, self.grad_placements(i), owner) for i, (p, index) in pairs]


def _other_placement(whole, mesh, placements):
    """A gradient with other placements than its parameter; partial sums differ from process to process."""
    if placements != (Partial(),):
        return distribute_tensor(whole, mesh, placements, src_data_rank=None)
    summand = whole * (mesh.get_local_rank() + 1) / sum(range(1, mesh.size() + 1))
    return DTensor.from_local(summand, mesh, placements, run_check=False)


# Tensors placed one by one.


def _fitting(placement, ndim):
    """The placement, or the closest one for a tensor with fewer dimensions."""
    if not isinstance(placement, Shard) or placement.dim < ndim:
        return placement
    return Shard(ndim - 1) if ndim else Replicate()


def _distributed(whole, mesh, *placements):
    fitting = [_fitting(placement, whole.ndim) for placement in placements]
    return nn.Parameter(distribute_tensor(whole, mesh, fitting, src_data_rank=None))  # every process has all of it


def _placed(mesh_shape, *placements):
    def place(wholes):
        mesh = init_device_mesh("cpu", mesh_shape)
        return [_distributed(w, mesh, *placements) for w in wholes], None

    return place


def _with_plain(wholes):
    mesh = init_device_mesh("cpu", (4,))
    return [_distributed(w, mesh, Shard(0)) if i % 2 else nn.Parameter(w) for i, w in enumerate(wholes)], None


def _one_mesh_in_the_other(wholes):
    """As experts do: some tensors over all processes, the others over one dimension of a mesh, with equal copies."""
    inner = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))["shards"]
    places = [(init_device_mesh("cpu", (4,)), Shard(0)), (inner, Shard(1)), (inner, Shard(0))]
    return [_distributed(w, *places[i % 3]) for i, w in enumerate(wholes)], None


def _mixed(wholes):
    """All the placements that a mesh with two dimensions has, in one optimizer."""
    mesh = init_device_mesh("cpu", (2, 2))
    kinds = [Shard(0), Shard(1), Replicate()]
    pairs = [(first, second) for first in kinds for second in kinds]
    return [_distributed(w, mesh, *pairs[(2 * i) % 9]) for i, w in enumerate(wholes)], None


def _sharded_or_copied(wholes):
    mesh = init_device_mesh("cpu", (2,))
    return [_distributed(w, mesh, Shard(0) if i % 2 else Replicate()) for i, w in enumerate(wholes)], None


OTHER_PLACEMENTS = [(Partial(),), (Partial(),), (Shard(0),), (Replicate(),)]

# Parameters of modules, placed by a wrapper.


class Holder(nn.Module):
    """A module that has the given parameters, the odd ones in a child."""

    def __init__(self, wholes):
        super().__init__()
        self.child = nn.Module()
        self.order = [f"child.p{i}" if i % 2 else f"p{i}" for i in range(len(wholes))]
        for i, whole in enumerate(wholes):
            (self.child if i % 2 else self).register_parameter(f"p{i}", nn.Parameter(whole))

    def params(self):
        """The parameters in the order in which they were given."""
        return [self.get_parameter(name) for name in self.order]


def _held(wrap):
    """A placement by a wrapper of a module with these parameters."""

    def place(wholes):
        holder = Holder(wholes)
        order = {id(p): i for i, p in enumerate(holder.params())}
        wrapped = wrap(holder)
        if isinstance(wrapped, Holder):
            return wrapped.params(), wrapped
        return sorted(wrapped.parameters(), key=lambda p: order[id(p)]), wrapped  # DDP keeps the objects

    return place


def fsdp2(*mesh_shape):
    """`fully_shard`, the child by itself; two dimensions are HSDP."""

    def wrap(module):
        names = {1: ("shards",), 2: ("copies", "shards")}[len(mesh_shape)]
        mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=names)
        for child in [*module.children()][:1]:
            fully_shard(child, mesh=mesh)
        return fully_shard(module, mesh=mesh)

    return wrap


def _linear(wrap):
    """The parameters of a wrapped model with Linear(4, 5), Linear(5, 3) and two other parameters."""

    def place(wholes):
        model = nn.Module()
        model.up, model.down = nn.Linear(4, 5, dtype=torch.float64), nn.Linear(5, 3, dtype=torch.float64)
        names = ["up.weight", "up.bias", "down.weight", "down.bias", "scale", "table"]
        for name, whole in zip(names, wholes, strict=True):
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, nn.Parameter(whole))
        model = wrap(model)
        return [model.get_parameter(name) for name in names], model

    return place


def tensor_parallel(mesh):
    """The plan of a pair of Linear layers: the first is cut along its outputs, the second along its inputs."""
    return lambda model: parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def _tp(model):
    return tensor_parallel(init_device_mesh("cpu", (4,)))(model)


def tp_and_fsdp2(model):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return fully_shard(tensor_parallel(mesh["tp"])(model), mesh=mesh["dp"])


SCHEMES = {
    "Shard(0) on 2": Scheme(2, _placed((2,), Shard(0)), WITH_SCALAR),
    "Shard(0) on 4": Scheme(4, _placed((4,), Shard(0)), WITH_SCALAR),
    "Shard(1) on 2": Scheme(2, _placed((2,), Shard(1)), WITH_SCALAR),
    "Shard(1) on 4": Scheme(4, _placed((4,), Shard(1)), WITH_SCALAR),
    "Shard(3) on 2": Scheme(2, _placed((2,), Shard(3)), WITH_SCALAR),
    "Replicate on 2": Scheme(2, _placed((2,), Replicate()), WITH_SCALAR),
    "Shard(0), Shard(1)": Scheme(4, _placed((2, 2), Shard(0), Shard(1)), WITH_SCALAR),
    "Shard(0), Shard(0)": Scheme(4, _placed((2, 2), Shard(0), Shard(0)), WITH_SCALAR),
    "Shard(0), Replicate": Scheme(4, _placed((2, 2), Shard(0), Replicate()), WITH_SCALAR),
    "Replicate, Shard(0)": Scheme(4, _placed((2, 2), Replicate(), Shard(0)), WITH_SCALAR),
    "Replicate, Shard(1)": Scheme(4, _placed((2, 2), Replicate(), Shard(1)), WITH_SCALAR),
    "all placements of a mesh": Scheme(4, _mixed, WITH_SCALAR),
    "with plain tensors": Scheme(4, _with_plain, WITH_SCALAR),
    "two meshes": Scheme(4, _one_mesh_in_the_other, WITH_SCALAR),
    "gradients placed otherwise": Scheme(
        2, _sharded_or_copied, grad_placements=lambda i: OTHER_PLACEMENTS[i % len(OTHER_PLACEMENTS)]
    ),
    "fully_shard on 2": Scheme(2, _held(fsdp2(2))),
    "fully_shard on 4": Scheme(4, _held(fsdp2(4))),
    "HSDP": Scheme(4, _held(fsdp2(2, 2))),
    "tensor parallel": Scheme(4, _linear(_tp), LINEAR),
    "tensor parallel and fully_shard": Scheme(4, _linear(tp_and_fsdp2), LINEAR),
    "DDP": Scheme(2, _held(DistributedDataParallel)),
}
