"""Pictures of figures, whatever their size."""

import io

import pytest
from matplotlib.figure import Figure
from PIL import Image

from fairbench.report.figures import canvas


@pytest.mark.parametrize(("inches", "pixels"), [((10.0, 5.0), (1600, 800)), ((10.0, 500.0), (346, 17320))])
def test_a_picture_has_no_more_pixels_than_it_may(inches: tuple[float, float], pixels: tuple[int, int]) -> None:
    """At the dpi of others one of 500 inches would be higher than matplotlib can draw."""
    drawing = canvas.finished(Figure(figsize=inches), {}, "name", "Title", "What it shows.")
    picture = Image.open(io.BytesIO(drawing.png))
    assert picture.size == pytest.approx(pixels, abs=2)
    assert picture.width * picture.height <= 1.001 * canvas.MOST_PIXELS
