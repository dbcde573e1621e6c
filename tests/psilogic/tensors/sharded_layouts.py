"""All ways to shard parameters over processes, and the part of each parameter on each process."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, product

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
            self.param.grad = DTensor.from_local(
                self.of(whole),
                self.param.device_mesh,
                self.param.placements,
                run_check=False,
                shape=whole.shape,
                stride=whole.stride(),
            )
        else:
            self.param.grad = _other_placement(whole, self.param.device_mesh, self.placements)


def local(x: Tensor) -> Tensor:
    """The part of a tensor that this process has, sharing its memory."""
    if not isinstance(x, DTensor):
        return x.detach()
    with torch.no_grad():
        return x.to_local()


def _those_of_the_parameter(i: int) -> None:
    """The placements of the i-th gradient, where they are the parameter's."""


@dataclass(frozen=True)
class Scheme:
    """A layout of tensors over processes."""

    world: int
    place: Callable[[list[Tensor]], tuple[list[Tensor], nn.Module | None]]  # parameters here, their owner
    shapes: tuple = SHAPES
    grad_placements: Callable[[int], tuple | None] = _those_of_the_parameter  # of the i-th gradient

    def shares(self, wholes: list[Tensor]) -> list[Share]:
        """The whole tensors as this process has them.

        The elements are read from a second set of parameters with the same layout, which contain their positions:
        nothing is assumed about how a wrapper cuts.
        """
        positions = []
        for whole in wholes:
            positions.append(torch.arange(whole.numel(), dtype=whole.dtype).reshape(whole.shape))
        placed_positions, _ = self.place(positions)
        params, owner = self.place([whole.detach().clone() for whole in wholes])
        shares = []
        for i, (param, position) in enumerate(zip(params, placed_positions, strict=True)):
            index = local(position).long()
            shares.append(Share(param, index, placements=self.grad_placements(i), owner=owner))
        return shares


def _other_placement(whole, mesh, placements):
    """A gradient with other placements than its parameter; partial sums differ from process to process."""
    if placements != (Partial(),):
        return distribute_tensor(whole, mesh, placements, src_data_rank=None)
    weight = mesh.get_local_rank() + 1
    total_weight = sum(range(1, mesh.size() + 1))
    summand = whole * weight / total_weight
    return DTensor.from_local(summand, mesh, placements, run_check=False)


# Tensors placed one by one.


def _fitting(placement, ndim):
    """The placement, or the closest one for a tensor with fewer dimensions."""
    if not isinstance(placement, Shard) or placement.dim < ndim:
        return placement
    if ndim == 0:
        return Replicate()
    return Shard(ndim - 1)


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
    params = []
    for i, whole in enumerate(wholes):
        params.append(_distributed(whole, mesh, Shard(0)) if i % 2 else nn.Parameter(whole))
    return params, None


def _one_mesh_in_the_other(wholes):
    """As experts do: some tensors over all processes, the others over one dimension of a mesh, with equal copies."""
    inner = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))["shards"]
    whole_mesh = init_device_mesh("cpu", (4,))
    places = cycle([(whole_mesh, Shard(0)), (inner, Shard(1)), (inner, Shard(0))])
    params = [_distributed(whole, mesh, placement) for whole, (mesh, placement) in zip(wholes, places, strict=False)]
    return params, None


def _mixed(wholes):
    """All the placements that a mesh with two dimensions has, in one optimizer."""
    mesh = init_device_mesh("cpu", (2, 2))
    pairs = list(product([Shard(0), Shard(1), Replicate()], repeat=2))
    params = []
    for i, whole in enumerate(wholes):
        first, second = pairs[(2 * i) % len(pairs)]
        params.append(_distributed(whole, mesh, first, second))
    return params, None


def _sharded_or_copied(wholes):
    mesh = init_device_mesh("cpu", (2,))
    params = []
    for i, whole in enumerate(wholes):
        params.append(_distributed(whole, mesh, Shard(0) if i % 2 else Replicate()))
    return params, None


OTHER_PLACEMENTS = [(Partial(),), (Partial(),), (Shard(0),), (Replicate(),)]


def _other_than_the_parameter(i):
    """The placements of the i-th gradient, where they are not the parameter's."""
    return OTHER_PLACEMENTS[i % len(OTHER_PLACEMENTS)]


# Parameters of modules, placed by a wrapper.


class Holder(nn.Module):
    """A module that has the given parameters, the odd ones in a child."""

    def __init__(self, wholes):
        super().__init__()
        self.child = nn.Module()
        self.count = len(wholes)
        for i, whole in enumerate(wholes):
            owner = self.child if i % 2 else self
            owner.register_parameter(f"p{i}", nn.Parameter(whole))

    def params(self):
        """The parameters in the order in which they were given."""
        return [self.get_parameter(f"child.p{i}" if i % 2 else f"p{i}") for i in range(self.count)]


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
        names = ("shards",) if len(mesh_shape) == 1 else ("copies", "shards")
        mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=names)
        first_child = next(module.children(), None)
        if first_child is not None:
            fully_shard(first_child, mesh=mesh)
        return fully_shard(module, mesh=mesh)

    return wrap


def _linear(wrap):
    """The parameters of a wrapped model with Linear(4, 5), Linear(5, 3) and two other parameters."""

    def place(wholes):
        model = nn.Module()
        model.up = nn.Linear(4, 5, dtype=torch.float64)
        model.down = nn.Linear(5, 3, dtype=torch.float64)
        names = ["up.weight", "up.bias", "down.weight", "down.bias", "scale", "table"]
        for name, whole in zip(names, wholes, strict=True):
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, nn.Parameter(whole))
        model = wrap(model)
        return [model.get_parameter(name) for name in names], model

    return place


def tensor_parallel(mesh):
    """The plan of a pair of Linear layers: the first is cut along its outputs, the second along its inputs."""

    def wrap(model):
        return parallelize_module(model, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})

    return wrap


def _tp(model):
    return tensor_parallel(init_device_mesh("cpu", (4,)))(model)


def tp_and_fsdp2(model):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return fully_shard(tensor_parallel(mesh["tp"])(model), mesh=mesh["dp"])


def _tensors(world, *placements, mesh=None):
    """Tensors placed one by one, a scalar and an empty one among them."""
    return Scheme(world, _placed(mesh or (world,), *placements), shapes=WITH_SCALAR)


SCHEMES = {
    "Shard(0) on 2": _tensors(2, Shard(0)),
    "Shard(0) on 4": _tensors(4, Shard(0)),
    "Shard(1) on 2": _tensors(2, Shard(1)),
    "Shard(1) on 4": _tensors(4, Shard(1)),
    "Shard(3) on 2": _tensors(2, Shard(3)),
    "Replicate on 2": _tensors(2, Replicate()),
    "Shard(0), Shard(1)": _tensors(4, Shard(0), Shard(1), mesh=(2, 2)),
    "Shard(0), Shard(0)": _tensors(4, Shard(0), Shard(0), mesh=(2, 2)),
    "Shard(0), Replicate": _tensors(4, Shard(0), Replicate(), mesh=(2, 2)),
    "Replicate, Shard(0)": _tensors(4, Replicate(), Shard(0), mesh=(2, 2)),
    "Replicate, Shard(1)": _tensors(4, Replicate(), Shard(1), mesh=(2, 2)),
    "all placements of a mesh": Scheme(4, _mixed, shapes=WITH_SCALAR),
    "with plain tensors": Scheme(4, _with_plain, shapes=WITH_SCALAR),
    "two meshes": Scheme(4, _one_mesh_in_the_other, shapes=WITH_SCALAR),
    "gradients placed otherwise": Scheme(2, _sharded_or_copied, grad_placements=_other_than_the_parameter),
    "fully_shard on 2": Scheme(2, _held(fsdp2(2))),
    "fully_shard on 4": Scheme(4, _held(fsdp2(4))),
    "HSDP": Scheme(4, _held(fsdp2(2, 2))),
    "tensor parallel": Scheme(4, _linear(_tp), shapes=LINEAR),
    "tensor parallel and fully_shard": Scheme(4, _linear(tp_and_fsdp2), shapes=LINEAR),
    "DDP": Scheme(2, _held(DistributedDataParallel)),
}
