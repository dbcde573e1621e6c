"""A figure for the page: a separate SVG element for each panel, in the page's colors."""

import re
from collections.abc import Iterator
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
    rules = []
    for role, color in LIGHT.items():
        for kind in ("fill", "stroke"):
            rules.append(f'[{kind}="{color}"] {{ {kind}: var(--{role}); }}')
    return "\n".join(rules)


def inline(drawing: Drawing) -> list[str]:
    """The panels of a figure as SVG elements for an HTML page, in their order.

    Styles become attributes, which every content security policy allows; ids get the figure's name and the panel's
    number as a prefix; an element of an arm has its index in `data-arm`.
    """
    root = ElementTree.fromstring(drawing.svg)
    _remove_namespaces(root)
    definitions = _definitions(root)
    groups = {group.attrib["id"]: group for group in root.iter("g") if "id" in group.attrib}
    panels = []
    for number, part in enumerate(drawing.parts):
        group = groups[f"panel{number}"]
        panels.append(_panel(group, part, definitions, prefix=f"{drawing.name}-{number}", title=drawing.title))
    return panels


def _remove_namespaces(root: Element) -> None:
    """Leave only the local names of elements and attributes."""
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): value for name, value in element.attrib.items()}


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _definitions(root: Element) -> dict[str, Element]:
    """What elements can refer to, by its id."""
    found = {}
    for definitions in root.iter("defs"):
        for item in definitions:
            if "id" in item.attrib:
                found[item.attrib["id"]] = item
    return found


def _panel(group: Element, part: Panel, definitions: dict[str, Element], prefix: str, title: str) -> str:
    """One panel with the definitions that it refers to."""
    _remove_definitions(group)
    needed = {name: deepcopy(definitions[name]) for name in _references(group) if name in definitions}
    box = " ".join(f"{number:g}" for number in part.box)
    svg = Element("svg", {"viewBox": box, "role": "img", **LINES})
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
            _share_colors(markers)
    return ElementTree.tostring(svg, encoding="unicode")


def _remove_definitions(group: Element) -> None:
    for parent in list(group.iter()):
        for definitions in parent.findall("defs"):
            parent.remove(definitions)


def _references(group: Element) -> list[str]:
    """The ids to which the elements of a group refer, sorted."""
    found: set[str] = set()
    for element in group.iter():
        for attribute in ("href", "clip-path"):
            found.update(REFERENCE.findall(element.get(attribute, "")))
    return sorted(found)


def _share_colors(markers: Element) -> None:
    """Write the colors that all markers of a group share once for all of them, so that a page has fewer bytes."""
    attributes = [set(marker.attrib.items()) for marker in markers]
    for name, value in sorted(set.intersection(*attributes)):
        if not name.startswith(("fill", "stroke")):
            continue
        markers.set(name, value)
        for marker in markers:
            del marker.attrib[name]


def _adopt(element: Element, prefix: str, needed: dict[str, Element]) -> None:
    """Rewrite one element's id, references and style; text has the page's font."""
    name = element.attrib.pop("id", "")
    if name in needed:
        element.set("id", f"{prefix}-{name}")
    arm = ARM_ID.fullmatch(name)
    if arm:
        element.set("data-arm", arm[1])
    for attribute in ("href", "clip-path"):
        if attribute in element.attrib:
            element.set(attribute, REFERENCE.sub(rf"#{prefix}-\1", element.attrib[attribute]))
    for name, value in _style_of(element.attrib.pop("style", "")):
        if name != "font-family":
            element.set(name, value)
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if "d" in element.attrib:
        element.set("d", " ".join(element.attrib["d"].split()))
    element.text = _stripped(element.text)
    element.tail = _stripped(element.tail)


def _style_of(style: str) -> Iterator[tuple[str, str]]:
    """The names and values of a style attribute."""
    for part in style.split("; "):
        if part:
            name, value = part.split(": ")
            yield name, value


def _stripped(text: str | None) -> str | None:
    return (text or "").strip() or None


def swatch(style: ArmStyle) -> str:
    """A sample of an arm's line with its dash and marker, as an SVG element."""
    svg = Element("svg", {"class": "swatch", "viewBox": "0 -6 40 12", "aria-hidden": "true"})
    width = 4.5 if style.wide else 1.6
    line = {"d": "M 0 0 H 40", "stroke": style.color, "stroke-width": str(width), "fill": "none"}
    if not isinstance(style.line, str):
        line["stroke-dasharray"] = " ".join(f"{width * part:g}" for part in style.line[1])
    ElementTree.SubElement(svg, "path", line)
    ElementTree.SubElement(svg, "path", {"d": _marker_path(style.marker), "fill": style.color})
    return ElementTree.tostring(svg, encoding="unicode")


def _marker_path(name: str) -> str:
    """The outline of a marker in the middle of a sample, as commands of SVG."""
    marker = MarkerStyle(name)
    enlarged = Affine2D().scale(8, -8).translate(20, 0)
    outline = marker.get_path().transformed(marker.get_transform() + enlarged)
    commands = []
    for points, code in outline.iter_segments():
        if code == outline.CLOSEPOLY:
            commands.append("Z")
        else:
            numbers = " ".join(f"{number:.3g}" for number in points)
            commands.append(f"{LETTERS[int(code)]} {numbers}")
    return " ".join(commands)
