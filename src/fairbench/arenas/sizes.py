"""Models of an arena at other sizes: one dial, from which width, depth and heads follow.

A user's arena has the same as a method, see `fairbench.arenas.base.Arena.sized`.
"""

from collections.abc import Callable, Mapping
from typing import Any

Sized = Callable[[Mapping[str, Any], int], tuple[dict[str, Any], int]]
"""From the options of the declared model and another size to the options of that model and its parameters."""


def transformer(model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
    """A transformer with `size` as its `hidden_size`; depth and number of heads grow in proportion, rounded.

        parameters = 12 layers hidden_size^2

    Returns:
        The options, and the parameters without embeddings, norms and biases.

    Raises:
        ValueError: the width is no multiple of the number of heads.

    Source of the count: Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 2.1.
    """
    factor = size / model["hidden_size"]
    layers, heads = (max(round(factor * model[key]), 1) for key in ("layers", "heads"))
    if size % heads:
        raise ValueError(f"gives {heads} heads, of which {size} is no multiple")
    return {**model, "hidden_size": size, "layers": layers, "heads": heads}, 12 * layers * size**2


def resnet(model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
    """A ResNet-18 with `size` as its `width`; its depth stays.

        parameters = 2724 width^2

    The first convolution does not count.
    """
    return {**model, "width": size}, 2724 * size**2


SIZED: Mapping[str, Sized] = {"gpt": transformer, "vit": transformer, "resnet": resnet}
"""The rule of each included arena that has one."""
