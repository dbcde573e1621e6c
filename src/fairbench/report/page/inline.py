"""A figure for the page: a separate SVG element for each panel, in the page's colors."""

import re
from copy import deepcopy
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from matplotlib.markers import MarkerStyle
from matplotlib.transforms import Affine2D

from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.panel import Panel
from fairbench.report.figures.style import ArmStyle

REFERENCE = re.compile(r"#([\w.-]+)")
ARM_ID = re.compile(r"panel\d+\.arm(\d+)\.\d+")
LETTERS = {1: "M", 2: "L", 3: "Q", 4: "C"}
"""The commands of an SVG path by matplotlib's codes."""
LINES = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
"""What matplotlib declares for all elements of an SVG."""


def colors() -> str:
    """CSS that gives each color of a figure that of its role, so that without it the light colors stay."""
    return "\n".join(
        f'[{kind}="{color}"] {{ {kind}: var(--{role}); }}'
        for role, color in LIGHT.items()
        for kind in ("fill", "stroke")
    )


def inline(drawing: Drawing) -> list[str]:
    """The panels of a figure as SVG elements for an HTML page, in their order.

    Styles become attributes, which every content security policy allows; ids get the figure's name and the panel's
    number as a prefix; an element of an arm has its index in `data-arm`.
    """
    root = ElementTree.fromstring(drawing.svg)
    for element in root.iter():  # without their namespaces
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    shared = {item.attrib["id"]: item for defs in root.iter("defs") for item in defs if "id" in item.attrib}
    groups = {group.attrib["id"]: group for group in root.iter("g") if "id" in group.attrib}
    return [
        _panel(groups[f"panel{i}"], part, shared, f"{drawing.name}-{i}", drawing.title)
        for i, part in enumerate(drawing.parts)
    ]


def _panel(group: Element, part: Panel, shared: dict[str, Element], prefix: str, title: str) -> str:
    """One panel with the definitions that it refers to."""
    for parent in list(group.iter()):
        for defs in parent.findall("defs"):
            parent.remove(defs)
    references = " ".join(x.get(name, "") for x in group.iter() for name in ("href", "clip-path"))
    needed = {name: deepcopy(shared[name]) for name in sorted({*REFERENCE.findall(references)}) if name in shared}
    svg = Element("svg", {"viewBox": " ".join(f"{x:g}" for x in part.box), "role": "img", **LINES})
    svg.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    ElementTree.SubElement(svg, "title", id=f"{prefix}-title").text = f"{title}: {part.title}"
    ElementTree.SubElement(svg, "desc", id=f"{prefix}-desc").text = " ".join(part.said)
    ElementTree.SubElement(svg, "defs").extend(needed.values())
    svg.append(group)
    for element in (*svg.iter("defs"), group):
        for each in element.iter():
            _adopt(each, prefix, needed)
    for markers in group.iter("g"):
        if len(markers) > 1 and all(marker.tag == "use" for marker in markers):
            shared_by_all = set.intersection(*(set(marker.attrib.items()) for marker in markers))
            for name, value in sorted(x for x in shared_by_all if x[0].startswith(("fill", "stroke"))):
                markers.set(name, value)  # once for all of them, so that a page has fewer bytes
                for marker in markers:
                    del marker.attrib[name]
    return ElementTree.tostring(svg, encoding="unicode")


def _adopt(element: Element, prefix: str, needed: dict[str, Element]) -> None:
    """Rewrite one element's id, references and style; text has the page's font."""
    name = element.attrib.pop("id", "")
    if name in needed:
        element.set("id", f"{prefix}-{name}")
    if arm := ARM_ID.fullmatch(name):
        element.set("data-arm", arm[1])
    for attribute in ("href", "clip-path"):
        if attribute in element.attrib:
            element.set(attribute, REFERENCE.sub(rf"#{prefix}-\1", element.attrib[attribute]))
    style = [part.split(": ") for part in element.attrib.pop("style", "").split("; ") if part]
    element.attrib.update({name: value for name, value in style if name != "font-family"})
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if "d" in element.attrib:
        element.set("d", " ".join(element.attrib["d"].split()))
    element.text, element.tail = ((text or "").strip() or None for text in (element.text, element.tail))


def swatch(style: ArmStyle) -> str:
    """A sample of an arm's line with its dash and marker, as an SVG element."""
    svg = Element("svg", {"class": "swatch", "viewBox": "0 -6 40 12", "aria-hidden": "true"})
    width = 4.5 if style.wide else 1.6
    line = {"d": "M 0 0 H 40", "stroke": style.color, "stroke-width": str(width), "fill": "none"}
    if not isinstance(style.line, str):
        line["stroke-dasharray"] = " ".join(f"{width * part:g}" for part in style.line[1])
    marker = MarkerStyle(style.marker)
    outline = marker.get_path().transformed(marker.get_transform() + Affine2D().scale(8, -8).translate(20, 0))
    points = [
        "Z" if code == outline.CLOSEPOLY else f"{LETTERS[int(code)]} {' '.join(f'{x:.3g}' for x in at)}"
        for at, code in outline.iter_segments()
    ]
    ElementTree.SubElement(svg, "path", line)
    ElementTree.SubElement(svg, "path", {"d": " ".join(points), "fill": style.color})
    return ElementTree.tostring(svg, encoding="unicode")
