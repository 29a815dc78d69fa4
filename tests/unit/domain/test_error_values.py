"""Properties of every error class."""

import pickle
import re
from collections.abc import Iterator
from itertools import product

import pytest

from holdfast.domain.errors import HoldfastError


def tree(error: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield error
    for below in error.__subclasses__():
        yield from tree(below)


# Other layers may have their own, in the words of whoever they speak with.
ERRORS = [error for error in tree(HoldfastError) if error.__module__ == HoldfastError.__module__]


def test_codes_are_unique() -> None:
    assert len(ERRORS) > 20
    assert not [(one, other) for one, other in product(ERRORS, ERRORS) if one is not other and one.code == other.code]


@pytest.mark.parametrize("error", ERRORS)
def test_a_code_is_the_name_of_its_class_in_capitals(error: type[HoldfastError]) -> None:
    expected = re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).upper()
    assert error.code == ("INTERNAL" if error is HoldfastError else expected)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_has_a_message_and_details(error: type[HoldfastError]) -> None:
    raised = error("it is not there", id="run_1")
    assert (str(raised), raised.message, raised.details) == ("it is not there", "it is not there", {"id": "run_1"})
    assert error("plain").details == {}


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_survives_pickling(error: type[HoldfastError]) -> None:
    copy = pickle.loads(pickle.dumps(error("it is not there", id="run_1")))
    assert (type(copy), copy.message, copy.details) == (error, "it is not there", {"id": "run_1"})
