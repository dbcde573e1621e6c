"""Figures for the page: each panel is a separate SVG element, in the colors of the page."""

import re
from collections.abc import Iterator
from copy import deepcopy
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from matplotlib.markers import MarkerStyle
from matplotlib.transforms import Affine2D

from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.panel import Panel
from fairbench.report.figures.style import ArmStyle

REFERENCE = re.compile(r"#([\w.-]+)")
ARM_ID = re.compile(r"panel\d+\.arm(\d+)\.\d+")
LETTERS = {1: "M", 2: "L", 3: "Q", 4: "C"}
"""The commands of an SVG path by matplotlib's codes."""
LINES = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
"""The attributes that matplotlib declares for all elements of an SVG."""


def colors() -> str:
    """The CSS that replaces each light color of a figure by the color of its role.

    Without the CSS the light colors stay.
    """
    rules = []
    for role, color in LIGHT.items():
        for kind in ("fill", "stroke"):
            rules.append(f'[{kind}="{color}"] {{ {kind}: var(--{role}); }}')
    return "\n".join(rules)


def inline(drawing: Drawing) -> list[str]:
    """The panels of a figure as SVG elements for an HTML page, in their order.

    Styles become attributes, which every content security policy allows. Ids get the name of the figure and the number
    of the panel as a prefix. An element of an arm has the index of the arm in `data-arm`.
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
    """Remove the namespaces from the names of all elements and attributes."""
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): value for name, value in element.attrib.items()}


def _local(name: str) -> str:
    """A name such as `{namespace}path` without its namespace."""
    return name.rpartition("}")[2]


def _definitions(root: Element) -> dict[str, Element]:
    """The definitions to which elements can refer, by their ids."""
    by_id = {}
    for definitions in root.iter("defs"):
        for item in definitions:
            if "id" in item.attrib:
                by_id[item.attrib["id"]] = item
    return by_id


def _panel(group: Element, part: Panel, definitions: dict[str, Element], prefix: str, title: str) -> str:
    """The SVG of one panel, with a title, a description and the definitions to which it refers."""
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
    """Remove the definitions inside a group; a panel gets those that it needs."""
    for parent in list(group.iter()):
        for definitions in parent.findall("defs"):
            parent.remove(definitions)


def _references(group: Element) -> list[str]:
    """The ids to which the elements of a group refer, sorted."""
    ids: set[str] = set()
    for element in group.iter():
        for attribute in ("href", "clip-path"):
            ids.update(REFERENCE.findall(element.get(attribute, "")))
    return sorted(ids)


def _share_colors(markers: Element) -> None:
    """Move the colors that all markers of a group share to the group, so that a page has fewer bytes."""
    attributes = [set(marker.attrib.items()) for marker in markers]
    for name, value in sorted(set.intersection(*attributes)):
        if not name.startswith(("fill", "stroke")):
            continue
        markers.set(name, value)
        for marker in markers:
            del marker.attrib[name]


def _adopt(element: Element, prefix: str, needed: dict[str, Element]) -> None:
    """Rewrite the id, the references and the style of one element for the page. Its text gets the font of the page."""
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
    if element.get("transform", "").startswith("rotate(-0 "):  # it has no effect
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
    """A text without space at its ends; None if nothing is left."""
    return (text or "").strip() or None


def swatch(style: ArmStyle) -> str:
    """A sample of the line of an arm, with its dash and its marker, as an SVG element."""
    svg = Element("svg", {"class": "swatch", "viewBox": "0 -6 40 12", "aria-hidden": "true"})
    width = 4.5 if style.wide else 1.6
    line = {"d": "M 0 0 H 40", "stroke": style.color, "stroke-width": str(width), "fill": "none"}
    if not isinstance(style.line, str):
        line["stroke-dasharray"] = " ".join(f"{width * part:g}" for part in style.line[1])
    ElementTree.SubElement(svg, "path", line)
    ElementTree.SubElement(svg, "path", {"d": _marker_path(style.marker), "fill": style.color})
    return ElementTree.tostring(svg, encoding="unicode")


def _marker_path(name: str) -> str:
    """The outline of a marker in the middle of a sample, as the commands of an SVG path."""
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
