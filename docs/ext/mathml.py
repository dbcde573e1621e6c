"""Formulas as MathML, which browsers show without a script."""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def visit_math(writer: Any, node: nodes.Element) -> None:
    """Write a formula, inline or as a block."""
    is_block = isinstance(node, nodes.math_block)
    formula = tex2mathml(node.astext(), as_block=is_block)
    if is_block:
        formula = f'<div class="formula">{formula}</div>'
    writer.body.append(formula)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer, which `html_math_renderer` selects."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.config.html_math_renderer = "mathml"
    return {"version": "1", "parallel_read_safe": True}
