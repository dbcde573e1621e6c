"""A figure for the page: a separate SVG element for each panel, in the page's colors."""

import re
from collections.abc import Iterator
from copy import deepcopy
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from fairbench.report.figures.canvas import Drawing, DrawnPanel
from fairbench.report.figures.colors import LIGHT

ROLES = {color: role for role, color in LIGHT.items()}
REFERENCE = re.compile(r"#([\w.-]+)")
ARM_ID = re.compile(r"panel\d+\.arm(\d+)\.\d+")


def inline(drawing: Drawing) -> list[str]:
    """The panels of a figure as SVG elements for an HTML page, in their order.

    Colors become the CSS variables of their roles, ids get the figure's name and the panel's number as a prefix, and
    an element of an arm has its index in `data-arm`.
    """
    root = _without_namespaces(ElementTree.fromstring(drawing.svg))
    shared = {item.attrib["id"]: item for defs in root.iter("defs") for item in defs if "id" in item.attrib}
    groups = {group.attrib["id"]: group for group in root.iter("g") if "id" in group.attrib}
    return [
        _panel(groups[f"panel{i}"], part, shared, f"{drawing.name}-{i}", drawing.title)
        for i, part in enumerate(drawing.parts)
    ]


def _without_namespaces(root: Element) -> Element:
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    return root


def _panel(group: Element, part: DrawnPanel, shared: dict[str, Element], prefix: str, title: str) -> str:
    """One panel with the definitions that it refers to."""
    for parent in list(group.iter()):
        for defs in parent.findall("defs"):
            parent.remove(defs)
    needed = {name: deepcopy(shared[name]) for name in sorted(set(_references(group))) if name in shared}
    svg = Element("svg", viewBox=" ".join(f"{x:g}" for x in part.box), role="img")
    svg.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    ElementTree.SubElement(svg, "title", id=f"{prefix}-title").text = f"{title}: {part.title}"
    ElementTree.SubElement(svg, "desc", id=f"{prefix}-desc").text = part.summary
    ElementTree.SubElement(svg, "defs").extend(needed.values())
    svg.append(group)
    for element in (*svg.iter("defs"), group):
        for each in element.iter():
            _adopt(each, prefix, needed)
    return ElementTree.tostring(svg, encoding="unicode")


def _references(group: Element) -> Iterator[str]:
    for element in group.iter():
        for name in ("href", "clip-path"):
            yield from REFERENCE.findall(element.get(name, ""))


def _adopt(element: Element, prefix: str, needed: dict[str, Element]) -> None:
    """Rewrite one element's id, references and colors."""
    name = element.attrib.pop("id", "")
    if name in needed:
        element.set("id", f"{prefix}-{name}")
    if arm := ARM_ID.fullmatch(name):
        element.set("data-arm", arm[1])
    for attribute in ("href", "clip-path"):
        if attribute in element.attrib:
            element.set(attribute, REFERENCE.sub(rf"#{prefix}-\1", element.attrib[attribute]))
    if "style" in element.attrib:
        element.set("style", re.sub("#[0-9a-f]{6}", lambda m: f"var(--{ROLES[m[0]]})", element.attrib["style"]))
    element.text, element.tail = ((text or "").strip() or None for text in (element.text, element.tail))
