"""The numbers that people write in the cells of a table."""

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from fairbench.common.errors import UsageError
from fairbench.common.number_texts import DECIMAL_COMMA, DECIMAL_POINT, SPACE_IN_NUMBER, number_of

DIVERGED = {"diverged", "divergiert", "divergé", "divergió", "nan", "inf", "+inf", "-inf", "infinity", "-infinity"}
"""Words in place of the value of a run that diverged."""
NOT_GIVEN = {"", "-", "--", "–", "—", "?", "none", "null", "na", "n/a", "#n/a", "<na>", "nat"}
"""Texts that say nothing."""
BROKEN = {"dnf", "fail", "failed", "failure", "crash", "crashed", "error", "oom", "out of memory", "missing"}
STOPPED = {"killed", "timeout", "timed out", "pruned", "canceled", "cancelled", "preempted"}
UNFINISHED = {"running", "pending", "scheduled"}
IN_OTHER_LANGUAGES = {
    *("abgestürzt", "abgestuerzt", "abgebrochen", "fehlgeschlagen", "fehlt", "fehler", "läuft noch"),
    *("planté", "échec", "échoué", "interrompu", "manquant", "erreur"),
    *("fallido", "falló", "fallo", "interrumpido", "abortado", "falta"),
}
"""Words for a lost run in German, French and Spanish."""
LOST = DIVERGED | NOT_GIVEN | BROKEN | STOPPED | UNFINISHED | IN_OTHER_LANGUAGES
"""Words in place of the value of a run that is lost for any reason."""
FINISHED = {
    *("finished", "finish", "complete", "completed", "done", "success", "successful", "succeeded", "ok", "converged"),
    *("ended", "stopped early", "early stopped", "true", "0", "1", "fertig", "beendet", "abgeschlossen", "terminé"),
    *("terminado", "completado"),
}
"""Words for a run that is not lost, some of them in German, French and Spanish."""
LARGEST = 1e300
"""Larger values count as diverged."""
PAIR = re.compile(r"(.+?)\s*(?:±|\+/-|\+-)\s*(.+)|(.+?)\s*\((.+)\)")
"""A mean with its standard deviation in one cell."""
IN_PARENTHESES = re.compile(r"(?P<mean>[^(]+?)\s*\((?P<second>.+)\)")
"""A number with another one in parentheses, which is not always a standard deviation."""
LARGEST_RANK = 30
"""A whole number up to this one in parentheses may be a rank."""
EMPHASIS = re.compile(r"\\\w+\{([^{}]*)\}")
"""A command of LaTeX with its argument."""


def words(text: str) -> str:
    """The text of a cell in small letters, without marks of emphasis and spaces between thousands."""
    small = text.casefold().replace("−", "-").replace("\\pm", "±")
    unmarked = EMPHASIS.sub(r"\1", small).strip(" *$")
    return SPACE_IN_NUMBER.sub("", unmarked)


def pair_of(text: str) -> tuple[str, str] | None:
    """The texts of mean and standard deviation of a cell that has both; otherwise None."""
    match = PAIR.fullmatch(words(text))
    if match is None:
        return None
    if match[1]:  # the form with a sign between the two
        return match[1], match[2]
    return match[3], match[4]  # the form with parentheses


def why_no_deviation(text: str) -> str:
    """Why the number in the parentheses of a cell may be no standard deviation, in words; empty where it may be one.

    A gain has a sign. A rank and the uncertainty of the last digit are whole numbers. A second result is as large as
    the first.
    """
    match = IN_PARENTHESES.fullmatch(words(text))
    if match is None:
        return ""
    mean = match["mean"]
    second = match["second"]
    if second.startswith(("+", "-")):
        return "a sign in parentheses is that of a gain"
    if second.endswith("%") and not mean.endswith("%"):
        return "percent in parentheses may be a gain"
    if not is_number(mean) or not is_number(second):
        return ""  # its error names the cell
    if second.isdigit() and (not mean.lstrip("+-").isdigit() or int(second) <= LARGEST_RANK):
        return "a whole number in parentheses may be a rank, or the uncertainty of the last digit"
    if _rough(second) > abs(_rough(mean)) / 2 > 0:
        return "the number in parentheses is too large for a standard deviation"
    return ""


def _rough(text: str) -> float:
    """The number of a text, with a comma taken as a decimal point."""
    atom = text.removesuffix("%").strip().replace(",", ".")
    whole, point, decimals = atom.rpartition(".")
    return float(whole.replace(".", "") + point + decimals)


def _first(text: str) -> str:
    """The words of a cell: of a mean with a deviation, those of the mean."""
    pair = pair_of(text)
    if pair is None:
        return words(text)
    mean, _ = pair
    return mean


def is_lost(text: str) -> bool:
    """Whether a cell says that there is no value, such as "OOM", or a mean of nan."""
    return _first(text) in LOST


def says_something(text: str) -> bool:
    """Whether a cell has more than a sign for nothing, such as "-" or "NA"."""
    return words(text) not in NOT_GIVEN


def given_texts(texts: Iterable[str]) -> list[str]:
    """The texts of cells that say something."""
    return [text for text in texts if says_something(text)]


def are_states(texts: Iterable[str]) -> bool:
    """Whether all texts that say something say that a run is lost, such as "crashed"."""
    given = given_texts(texts)
    return bool(given) and all(map(is_lost, given))


def atoms(text: str) -> list[str]:
    """The texts of the numbers of a cell, without percent signs: two of a mean with a deviation, none of a lost run."""
    if is_lost(text):
        return []
    parts = pair_of(text) or (text,)
    return [words(part).removesuffix("%").rstrip() for part in parts]


def is_number(text: str) -> bool:
    """Whether a cell may be a number, two of them, or a word in place of one."""
    return all(DECIMAL_POINT.fullmatch(atom) or DECIMAL_COMMA.fullmatch(atom) for atom in atoms(text))


def seed_of(text: str) -> str:
    """The one spelling of a seed: 1 and 1.0 are both "1"."""
    try:
        number = Decimal(text)
        if number == number.to_integral_value():
            return str(int(number))
    except (ArithmeticError, ValueError):
        pass  # a seed may be a name
    return text


def decimal_sign(cells: Iterable[tuple[str, str]]) -> str:
    """The decimal sign of all numbers of a table, "." or ",".

    A number that only fits one of the two signs decides.

    Args:
        cells: the texts of cells with their locations.

    Raises:
        UsageError: a text is not a number, or a text may be two numbers, such as "1,510" alone.
    """
    numbers = [(atom, location, text) for text, location in cells for atom in atoms(text)]
    only_comma: list[tuple[str, str]] = []
    only_point: list[tuple[str, str]] = []
    for atom, location, text in numbers:
        fits_point = DECIMAL_POINT.fullmatch(atom)
        fits_comma = DECIMAL_COMMA.fullmatch(atom)
        if not fits_point and not fits_comma:
            need = "must be a number, or say why there is none, such as diverged, failed or NA"
            raise UsageError(f"{location}: {need}; got {text!r}; leave the row out if it has no result")
        if not fits_point:
            only_comma.append((atom, location))
        if not fits_comma:
            only_point.append((atom, location))
    if only_comma and only_point:
        comma_atom, comma_location = only_comma[0]
        point_atom, point_location = only_point[0]
        raise UsageError(
            f"{comma_location}: {comma_atom} has a decimal comma, "
            f"but {point_location}: {point_atom} has a decimal point; write all alike"
        )
    if only_comma:
        return ","
    if only_point:
        return "."
    # all numbers fit both signs: a point is then taken as the decimal sign, but a comma is refused
    for atom, location, _ in numbers:
        if "," in atom:
            with_point = number_of(atom, ".")
            with_comma = number_of(atom, ",")
            raise UsageError(
                f"{location}: {atom} can be {with_point:g} or {with_comma:g}; "
                "write all numbers with a decimal point only"
            )
    return "."


def value_of(text: str, sign: str) -> float | None:
    """The number of a cell. NaN if its run diverged, None if it has no value for another reason.

    Of a mean with a deviation, it is the mean.

    Args:
        sign: the decimal sign, "." or ",".
    """
    if _first(text) in DIVERGED:
        return math.nan
    if is_lost(text):
        return None
    value = number_of(atoms(text)[0], sign)
    if abs(value) > LARGEST:
        return math.nan
    return value
