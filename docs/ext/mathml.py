"""Formulas as MathML, which browsers show without a script."""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def visit_math(writer: Any, node: nodes.Element) -> None:
    """Write a formula, inline or as a block."""
    block = isinstance(node, nodes.math_block)
    formula = tex2mathml(node.astext(), as_block=block)
    writer.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, which `html_math_renderer` selects."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.config.html_math_renderer = "mathml"
    return {"version": "1", "parallel_read_safe": True}
