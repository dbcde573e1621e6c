"""The arenas' models against those of transformers and diffusers, which the first studies used, bit by bit."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from fairbench.arenas.ddpm import DDPM
from fairbench.arenas.registry import ARENAS, load_arena
from fairbench.data.splits import Data, Split
from fairbench.suites.loader import load_suite, suite_names
from fairbench.training.digests import weights_hash
from psilogic import gpt_groups, nlp_groups, vit_groups
from psilogic.models.presets import suitable

pytestmark = pytest.mark.xdist_group("trial")  # which loads the same libraries

LABELS = 50


class Case(NamedTuple):
    task: str
    model: dict[str, Any]
    batch_size: int


def original(case, shape):
    """The library's model, without dropout."""
    from diffusers import UNet2DModel
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        ResNetConfig,
        ResNetForImageClassification,
        ViTConfig,
        ViTForImageClassification,
    )

    size, o = shape[-1], case.model
    if case.task == "gpt":
        sizes = {"n_embd": o["hidden_size"], "n_layer": o["layers"], "n_head": o["heads"]}
        off = dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.0)
        return GPT2LMHeadModel(GPT2Config(vocab_size=LABELS, n_positions=size, use_cache=False, **sizes, **off))
    if case.task == "vit":
        sizes = {"hidden_size": o["hidden_size"], "num_hidden_layers": o["layers"], "num_attention_heads": o["heads"]}
        sizes |= {"intermediate_size": 4 * o["hidden_size"], "image_size": size, "patch_size": o["patch_size"]}
        return ViTForImageClassification(ViTConfig(num_channels=shape[0], num_labels=LABELS, **sizes))
    if case.task == "resnet":
        widths = [o["width"] * 2**i for i in range(4)]
        sizes = {"embedding_size": o["width"], "hidden_sizes": widths, "depths": [2, 2, 2, 2]}
        config = ResNetConfig(num_channels=shape[0], layer_type="basic", num_labels=LABELS, **sizes)
        return ResNetForImageClassification(config)
    attends = [i in o["attention_levels"] for i in range(len(o["channels"]))]
    return UNet2DModel(
        sample_size=size,
        in_channels=shape[0],
        out_channels=shape[0],
        layers_per_block=1,
        block_out_channels=tuple(o["channels"]),
        down_block_types=tuple("AttnDownBlock2D" if here else "DownBlock2D" for here in attends),
        up_block_types=tuple("AttnUpBlock2D" if here else "UpBlock2D" for here in reversed(attends)),
        norm_num_groups=o["norm_groups"],
        attention_head_dim=o["norm_groups"],
    )


def scaled_down(value):
    """An option of a model, a quarter of it if it is a large width."""
    if isinstance(value, list):
        return [scaled_down(each) for each in value]
    return value // 4 if value > 32 else value


def cases():
    """The models of all suites, scaled down, and one with attention in every level."""
    found = [Case("ddpm", {"channels": [8, 16, 24], "norm_groups": 4, "attention_levels": [0, 1, 2]}, 5)]
    for suite in map(load_suite, suite_names()):
        for name, arena in suite.arenas.items():
            task = suite.task(name)
            if task not in ARENAS:
                continue
            model = {key: min(x, 3) if key == "layers" else scaled_down(x) for key, x in arena.model.items()}
            # Only the U-Net depends on the size of the batch: it changes the layout of large ones.
            case = Case(task, model, arena.batch_size if task == "ddpm" else 4)
            found += [case] if case not in found else []
    return found


def batch_of(case):
    """A random batch for an arena, and the shape of an input of its model."""
    size = {"vit": 2 * case.model.get("patch_size", 0), "ddpm": 8}.get(case.task, 32)
    shape = (size,) if case.task == "gpt" else (3, size, size)
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(LABELS, (case.batch_size,), generator=generator)
    if case.task == "gpt":
        return Split(torch.randint(LABELS, (case.batch_size, size + 1), generator=generator), labels), shape
    return Split(torch.randn(case.batch_size, *shape, generator=generator), labels), shape


def tensor(output):
    """The output of a model; those of the libraries' models are attributes."""
    return next(
        each
        for each in (output, getattr(output, "logits", None), getattr(output, "sample", None))
        if isinstance(each, Tensor)
    )


def trained(arena, model, examples, precision):
    """Losses and gradients of two steps of AdamW, the scores after them, and the last weights and statistics."""
    optimizer, numbers = torch.optim.AdamW(model.parameters(), lr=1e-2), []

    def called(*inputs):
        return tensor(model(*inputs))

    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        for _ in range(2):
            optimizer.zero_grad()
            loss = arena.loss(called, *examples)
            loss.backward()
            numbers += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
            optimizer.step()
        model.eval()
        with torch.no_grad():
            numbers += arena.scores(called, *examples).values()
    return [*numbers, *model.state_dict().values()]


def groups(model):
    """Every parameter group that psilogic finds for the model, with the names of its parameters."""
    names = {p: name for name, p in model.named_parameters()}
    found = [x for make in (gpt_groups, nlp_groups, vit_groups, suitable(model)[0].groups_of) for x in make(model)]
    return [(x["name"], [names[p] for p in x["params"]]) for x in found]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_model_is_the_librarys_one_bit_by_bit(case):
    arena, (batch, shape) = load_arena(case.task), batch_of(case)
    data = Data({}, "", lambda batch, generator: batch, shape, LABELS)
    examples = arena.examples(batch, torch.Generator().manual_seed(0))
    for precision in ("float32", "bfloat16"):
        models, generators = [], []
        for build in (lambda: arena.build_model(data, **case.model), lambda: original(case, shape)):
            torch.manual_seed(1)
            models.append(build())
            generators.append(torch.get_rng_state())
        ours, theirs = models
        assert [*ours.state_dict()] == [*theirs.state_dict()]
        assert weights_hash(ours) == weights_hash(theirs)
        assert torch.equal(*generators)
        assert groups(ours) == groups(theirs)
        pairs = zip(*(trained(arena, model, examples, precision) for model in models), strict=True)
        assert all(torch.equal(our, their) for our, their in pairs)


def test_noise_is_added_as_by_the_librarys_scheduler():
    from diffusers import DDPMScheduler

    clean = torch.randn(5000, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    noisy, steps, noise = DDPM().examples(Split(clean, torch.empty(0)), torch.Generator().manual_seed(0))
    assert len(steps.unique()) > 900
    assert torch.equal(noisy, DDPMScheduler(num_train_timesteps=1000).add_noise(clean, noise, steps))


@pytest.mark.parametrize("task", ["gpt", "vit"])
def test_heads_that_cannot_share_the_hidden_size_are_named(task):
    model = {"hidden_size": 8, "layers": 1, "heads": 3, "patch_size": 4}
    case = Case(task, {key: x for key, x in model.items() if key in ARENAS[task].model_options}, 1)
    batch, shape = batch_of(case)
    arena = load_arena(task)
    built = arena.build_model(Data({}, "", lambda batch, generator: batch, shape, LABELS), **case.model)
    with pytest.raises(ValueError, match="the hidden size must be a multiple of heads; got 8 and 3"):
        arena.loss(built, *arena.examples(batch, torch.Generator()))
