"""Temperatures, and what is known of them.

>>> fahrenheit(0)
32.0
>>> fahrenheit(100)
212.0
"""


def fahrenheit(celsius: float) -> float:
    """Return degrees Celsius as degrees Fahrenheit."""
    return celsius * 5 / 9 + 32
