"""The arenas' models against those of transformers and diffusers, which the first studies used, bit by bit."""

from collections import Counter
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
    """An arena, the options of its model, and the size of a batch."""

    task: str
    model: dict[str, Any]
    batch_size: int


def original(case, shape):
    """The library's model, without dropout."""
    originals = {"gpt": original_gpt, "vit": original_vit, "resnet": original_resnet, "ddpm": original_ddpm}
    return originals[case.task](case.model, shape)


def original_gpt(options, shape):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=LABELS,
        n_positions=shape[-1],
        n_embd=options["hidden_size"],
        n_layer=options["layers"],
        n_head=options["heads"],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    return GPT2LMHeadModel(config)


def original_vit(options, shape):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        num_channels=shape[0],
        image_size=shape[-1],
        patch_size=options["patch_size"],
        hidden_size=options["hidden_size"],
        num_hidden_layers=options["layers"],
        num_attention_heads=options["heads"],
        intermediate_size=4 * options["hidden_size"],
        num_labels=LABELS,
    )
    return ViTForImageClassification(config)


def original_resnet(options, shape):
    from transformers import ResNetConfig, ResNetForImageClassification

    width = options["width"]
    config = ResNetConfig(
        num_channels=shape[0],
        embedding_size=width,
        hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=LABELS,
    )
    return ResNetForImageClassification(config)


def original_ddpm(options, shape):
    from diffusers import UNet2DModel

    channels = options["channels"]
    down = ["DownBlock2D" for _ in channels]
    up = ["UpBlock2D" for _ in channels]
    for level in options["attention_levels"]:
        down[level] = "AttnDownBlock2D"
        up[len(channels) - 1 - level] = "AttnUpBlock2D"
    return UNet2DModel(
        sample_size=shape[-1],
        in_channels=shape[0],
        out_channels=shape[0],
        layers_per_block=1,
        block_out_channels=tuple(channels),
        down_block_types=tuple(down),
        up_block_types=tuple(up),
        norm_num_groups=options["norm_groups"],
        attention_head_dim=options["norm_groups"],
    )


def scaled_down(value):
    """An option of a model, a quarter of it if it is a large width."""
    if isinstance(value, list):
        return [scaled_down(each) for each in value]
    return value // 4 if value > 32 else value


OWN_CASES = (
    # attention in every level, and a batch from which on the layout of inputs is another one
    Case("ddpm", {"channels": [8, 16, 24], "norm_groups": 4, "attention_levels": [0, 1, 2]}, batch_size=5),
    Case("ddpm", {"channels": [8, 16], "norm_groups": 4, "attention_levels": [1]}, batch_size=64),
)
CASES_OF_TASK = 2
"""The first cases of each task have no marker. The others differ from them in sizes alone, and have the marker soak."""


def cases():
    """Those above, and the models of all suites, scaled down."""
    found = [*OWN_CASES]
    for suite in map(load_suite, suite_names()):
        for name, arena in suite.arenas.items():
            task = suite.task(name)
            if task not in ARENAS:
                continue
            model = {key: scaled_down(value) for key, value in arena.model.items()}
            if "layers" in model:
                model["layers"] = min(arena.model["layers"], 3)
            # Only the U-Net depends on the size of the batch: it changes the layout of large ones.
            batch_size = arena.batch_size if task == "ddpm" else 4
            case = Case(task, model, batch_size)
            if case not in found:
                found.append(case)
    return found


def marked_cases():
    """The cases as parameters."""
    parameters = []
    seen = Counter()
    for case in cases():
        seen[case.task] += 1
        is_kept = seen[case.task] <= CASES_OF_TASK
        parameters.append(pytest.param(case, marks=() if is_kept else pytest.mark.soak))
    return parameters


def shape_of_input(case):
    """The shape of an input of a model."""
    if case.task == "gpt":
        return (32,)
    if case.task == "vit":
        side = 2 * case.model["patch_size"]
    elif case.task == "ddpm":
        side = 8
    else:
        side = 32
    return (3, side, side)


def random_batch(case, shape):
    """A random batch for an arena, whose model has inputs of a shape."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(LABELS, (case.batch_size,), generator=generator)
    if case.task == "gpt":
        (length,) = shape
        inputs = torch.randint(LABELS, (case.batch_size, length + 1), generator=generator)
    else:
        inputs = torch.randn(case.batch_size, *shape, generator=generator)
    return Split(inputs, labels)


def data_of(shape):
    """Data of which only the shape of an input and the number of labels are known."""
    return Data({}, "", lambda batch, generator: batch, shape, LABELS)


def tensor(output):
    """The output of a model; those of the libraries' models are attributes."""
    if isinstance(output, Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    return output.sample


def trained(arena, model, examples, precision):
    """Losses and gradients of two steps of AdamW, the scores after them, and the last weights and statistics."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    numbers = []

    def called(*inputs):
        return tensor(model(*inputs))

    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        for _ in range(2):
            optimizer.zero_grad()
            loss = arena.loss(called, *examples)
            loss.backward()
            numbers.append(loss.detach())
            numbers += [p.grad.clone() for p in model.parameters()]
            optimizer.step()
        model.eval()
        with torch.no_grad():
            numbers += arena.scores(called, *examples).values()
    return [*numbers, *model.state_dict().values()]


def groups(model):
    """Every parameter group that psilogic finds for the model, with the names of its parameters."""
    names = {p: name for name, p in model.named_parameters()}
    preset = suitable(model)[0]
    found = []
    for make_groups in (gpt_groups, nlp_groups, vit_groups, preset.groups_of):
        for group in make_groups(model):
            members = [names[p] for p in group["params"]]
            found.append((group["name"], members))
    return found


@pytest.mark.parametrize("case", marked_cases(), ids=str)
def test_a_model_is_the_librarys_one_bit_by_bit(case):
    arena = load_arena(case.task)
    shape = shape_of_input(case)
    batch = random_batch(case, shape)
    examples = arena.examples(batch, torch.Generator().manual_seed(0))
    for precision in ("float32", "bfloat16"):
        torch.manual_seed(1)
        ours = arena.build_model(data_of(shape), **case.model)
        our_generator = torch.get_rng_state()
        torch.manual_seed(1)
        theirs = original(case, shape)
        their_generator = torch.get_rng_state()
        assert [*ours.state_dict()] == [*theirs.state_dict()]
        assert weights_hash(ours) == weights_hash(theirs)
        assert torch.equal(our_generator, their_generator)
        assert groups(ours) == groups(theirs)
        our_numbers = trained(arena, ours, examples, precision)
        their_numbers = trained(arena, theirs, examples, precision)
        for our, their in zip(our_numbers, their_numbers, strict=True):
            assert torch.equal(our, their)


def test_noise_is_added_as_by_the_librarys_scheduler():
    from diffusers import DDPMScheduler

    clean = torch.randn(5000, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    batch = Split(clean, torch.empty(0))
    noisy, steps, noise = DDPM().examples(batch, torch.Generator().manual_seed(0))
    assert len(steps.unique()) > 900
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    assert torch.equal(noisy, scheduler.add_noise(clean, noise, steps))


@pytest.mark.parametrize("task", ["gpt", "vit"])
def test_heads_that_cannot_share_the_hidden_size_are_named(task):
    options = {"hidden_size": 8, "layers": 1, "heads": 3}
    if task == "vit":
        options["patch_size"] = 4
    case = Case(task, options, batch_size=1)
    shape = shape_of_input(case)
    arena = load_arena(task)
    model = arena.build_model(data_of(shape), **options)
    examples = arena.examples(random_batch(case, shape), torch.Generator())
    with pytest.raises(ValueError, match="the hidden size must be a multiple of heads; got 8 and 3"):
        arena.loss(model, *examples)
