"""What is printed and logged goes to the host, line by line."""

import contextlib
import logging
import sys

import pytest

from hotshoe import log


@contextlib.contextmanager
def redirected():
    """Redirect, and put everything back."""
    root = logging.getLogger()
    before = sys.stdout, sys.stderr, root.handlers[:], root.level, logging.time
    lines = []
    try:
        log.redirect(lambda level, line: lines.append((level, line)))
        yield lines
    finally:
        sys.stdout, sys.stderr, root.handlers[:], level, logging.time = before
        root.setLevel(level)


def test_each_line_that_is_printed_is_one():
    with redirected() as lines:
        print("one\ntwo")
        print("a", end="")
        print("b")
        print("bad", file=sys.stderr)
        print("unfinished", end="")
        log.finish()
    info = [(log.INFO, line) for line in ("one", "two", "ab", "unfinished")]
    assert lines == [*info[:3], (log.WARN, "bad"), info[3]]


def test_records_keep_their_level():
    with redirected() as lines:
        logger = logging.getLogger("web")
        logger.setLevel(logging.DEBUG)
        logger.debug("d")
        logger.info("%s of %d", "1", 2)
        logging.warning("w")
        try:
            raise ValueError("no")
        except ValueError:
            logger.exception("failed")
    assert lines[:3] == [(log.DEBUG, "web: d"), (log.INFO, "web: 1 of 2"), (log.WARN, "w")]
    assert lines[3][0] == log.ERROR and lines[3][1].startswith("web: failed: ValueError: no (")


def test_a_message_that_does_not_fit_its_arguments_is_a_mistake():
    with redirected(), pytest.raises(TypeError):
        logging.getLogger("web").error("%d", "x")
