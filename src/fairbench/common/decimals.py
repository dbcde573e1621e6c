"""The decimals of written numbers. Their number is as large as the spread of the numbers supports."""

from dataclasses import dataclass

DIGITS = 9
"""The largest number of digits of a number, however narrow its interval is."""


@dataclass(frozen=True)
class Notation:
    """The way in which numbers that belong together are written.

    Attributes:
        places: the number of decimals. A negative one counts as 0.
        power: numbers are written as multiples of this power of ten.
    """

    places: int
    power: int = 0

    def text(self, value: float, sign: str = "") -> str:
        """A number as text. With `sign="+"` a positive number has a sign, too."""
        half = self.power // 2
        mantissa = value / 10.0**half / 10.0 ** (self.power - half)  # in two steps, since 10.0**-324 is 0
        text = f"{mantissa:{sign}.{max(self.places, 0)}f}"
        if self.power:
            text += f"e{self.power:+03d}"
        return text.replace("-", "−")


def notation(spread: float, largest: float) -> Notation:
    """The notation for numbers with the decimals that their spread supports.

    Args:
        spread: the spread of the numbers, such as a standard deviation.
        largest: the largest of their absolute values.
    """
    power = exponent(largest)
    if not needs_exponent(largest):
        power = 0
    return Notation(places=_places(spread, largest) + power, power=power)


def needs_exponent(value: float) -> bool:
    """Whether a number is written with a power of ten."""
    return not -4 <= exponent(value) < 7


def exponent(value: float) -> int:
    """The power of ten of the first digit of a number, after rounding to one digit."""
    _, power = f"{value:.0e}".split("e")
    return int(power)


def first_decimal(value: float) -> int:
    """The smallest number of decimals with which a value is not written as 0."""
    return -exponent(value)


def most_places(largest: float) -> int:
    """The largest number of decimals with which no number up to the largest one has more than `DIGITS` digits."""
    return DIGITS - 1 - exponent(largest)


def _places(spread: float, largest: float) -> int:
    """The number of decimals with which the last digit stands for between a 20th and a 200th of a spread."""
    mantissa, power = f"{spread:.1e}".split("e")
    digits = 2 if float(mantissa) < 2 else 1
    return min(digits - int(power), most_places(largest))
