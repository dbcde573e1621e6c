"""How different two colors look, also to people who do not see red or green."""

import numpy as np

PROTANOPIA = np.array(
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]
)
DEUTERANOPIA = np.array(
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
)
MATRICES = {"normal": np.eye(3), "protanopia": PROTANOPIA, "deuteranopia": DEUTERANOPIA}
"""What linear red, green and blue become: Machado, Oliveira & Fernandes 2009, severity 1."""

TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear(color):
    """Red, green and blue of a color #rrggbb as amounts of light, 0 to 1."""
    encoded = np.array([*bytes.fromhex(color.removeprefix("#"))]) / 255
    near_black = encoded / 12.92
    others = ((encoded + 0.055) / 1.055) ** 2.4
    return np.where(encoded <= 0.04045, near_black, others)


def luminance(color):
    return float(TO_XYZ[1] @ linear(color))


def contrast(one, other):
    """(L1 + 0.05) / (L2 + 0.05) of two luminances, L1 >= L2: Web Content Accessibility Guidelines 2.2."""
    lower, higher = sorted([luminance(one), luminance(other)])
    return (higher + 0.05) / (lower + 0.05)


def seen(color, vision):
    """L*, a*, b* of a color #rrggbb."""
    white = TO_XYZ.sum(axis=1)
    light = np.clip(MATRICES[vision] @ linear(color), 0, 1)
    x, y, z = TO_XYZ @ light / white
    lightness = 116 * perceived(y) - 16
    a = 500 * (perceived(x) - perceived(y))
    b = 200 * (perceived(y) - perceived(z))
    return lightness, a, b


def perceived(share):
    """The function f of CIELAB: a cube root that is a line near 0."""
    if share > 216 / 24389:
        return np.cbrt(share)
    return (24389 / 27 * share + 16) / 116


def ciede2000(one, other):
    """CIEDE2000 of two colors L*, a*, b*: Sharma, Wu & Dalal 2005, equations 2 to 22."""
    l1, a1, b1 = one
    l2, a2, b2 = other
    c = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    saturation = np.sqrt(c**7 / (c**7 + 25**7))
    g = 0.5 * (1 - saturation)
    c1, h1 = chroma_and_hue(a1, b1, g)
    c2, h2 = chroma_and_hue(a2, b2, g)
    if c1 * c2 == 0:
        turn = 0
        h = h1 + h2
    else:
        turn = (h2 - h1 + 180) % 360 - 180
        h = (h1 + turn / 2) % 360
    dl = l2 - l1
    dc = c2 - c1
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    from_gray = ((l1 + l2) / 2 - 50) ** 2
    mean_c = (c1 + c2) / 2
    t = 1 - 0.17 * cosine(h - 30)
    t += 0.24 * cosine(2 * h)
    t += 0.32 * cosine(3 * h + 6)
    t -= 0.20 * cosine(4 * h - 63)
    s_l = 1 + 0.015 * from_gray / np.sqrt(20 + from_gray)
    s_c = 1 + 0.045 * mean_c
    s_h = 1 + 0.015 * mean_c * t
    r_c = 2 * np.sqrt(mean_c**7 / (mean_c**7 + 25**7))
    from_blue = (h - 275) / 25
    d_theta = 30 * np.exp(-(from_blue**2))
    r_t = -np.sin(np.radians(2 * d_theta)) * r_c
    lightness = dl / s_l
    chroma = dc / s_c
    hue = dh / s_h
    rotation = r_t * chroma * hue
    return np.sqrt(lightness**2 + chroma**2 + hue**2 + rotation)


def chroma_and_hue(a, b, g):
    """The chroma, and the hue in degrees, of a color whose a* is stretched."""
    stretched = a * (1 + g)
    return np.hypot(stretched, b), np.degrees(np.arctan2(b, stretched)) % 360


def cosine(degrees):
    return np.cos(np.radians(degrees))
