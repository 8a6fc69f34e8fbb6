"""An exception says its type, its message and where it was raised."""

import linecache
import re

import pytest

from hotshoe.trace import describe


def raised(function):
    try:
        function()
    except BaseException as error:
        return describe(error)
    return pytest.fail("it raised nothing")


def inner():
    raise ValueError("I cannot\ncount to 5")


def outer():
    inner()


def test_the_calls_are_named_the_innermost_first():
    said = raised(outer)
    places = r"test_trace\.py:(\d+) in inner, called from \S*test_trace\.py:(\d+) in outer, called from \S*:\d+ in raised"
    match = re.fullmatch(rf"ValueError: I cannot count to 5 \(\S*{places}\)", said)
    assert match, said
    assert "raise ValueError" in linecache.getline(__file__, int(match[1]))
    assert "inner()" in linecache.getline(__file__, int(match[2]))


def test_what_caused_it_is_named():
    def caused():
        try:
            {}["size"]
        except KeyError as error:
            raise RuntimeError("no size") from error

    assert re.fullmatch(r"RuntimeError: no size \(.*\); caused by KeyError: 'size' \(.* in caused\)", raised(caused))


def test_a_recursion_without_end_is_named_once():
    def endless():
        endless()

    said = raised(endless)
    assert said.startswith("RecursionError: maximum recursion depth exceeded")
    assert re.search(r"test_trace\.py:\d+ in endless, \d\d+ times, called from ", said) and len(said) < 1000, said


def test_of_many_calls_the_innermost_are_named():
    def even(depth):
        odd(depth - 1)

    def odd(depth):
        even(depth) if depth else inner()

    said = raised(lambda: even(20))
    assert re.search(r"in inner, called from .* in odd, called from .* in even, .*, and \d\d calls before it\)$", said)


def test_a_message_that_cannot_be_shown_or_is_long_does_no_harm():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    def broken():
        raise Broken

    def long():
        raise ValueError("x" * 10_000)

    assert raised(broken).startswith("Broken: its message cannot be shown: RuntimeError")
    assert len(raised(long)) < 2000


def test_an_exit_is_named_too():
    assert raised(lambda: exit(3)).startswith("SystemExit: 3 (")
