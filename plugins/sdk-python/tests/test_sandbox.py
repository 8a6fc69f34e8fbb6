"""What a plugin does not have says so. Each test runs an interpreter of its own, as the sandbox is for good."""

import subprocess
import sys
from pathlib import Path

import pytest

SDK = Path(__file__).parents[1]


def in_sandbox(built, called):
    """Run code as it would be at the top of a plugin's module, and then in a call; return what it printed."""
    program = f"""
import sys
sys.path.insert(0, {str(SDK)!r})
from hotshoe import sandbox, trace
sandbox.enter()
{built}
sandbox.close()
try:
    {called}
except BaseException as error:
    print(trace.describe(error))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


@pytest.mark.parametrize(
    ("built", "called", "said"),
    [
        ("import time", "time.time()", "SandboxError: time.time: a plugin has no clock: take request.now"),
        ("from time import monotonic", "monotonic()", "time.monotonic: a plugin has no clock"),
        ("import time", "time.sleep(1)", "time.sleep: a plugin cannot wait: return Decision(requeue_after=…)"),
        ("import time", "time.gmtime()", "time.gmtime: a plugin has no clock"),
        ("from datetime import datetime", "datetime.now()", "datetime.now: a plugin has no clock"),
        ("from datetime import date", "date.today()", "date.today: a plugin has no clock"),
        ("import random", "random.choice([1])", "random.choice: a plugin has no randomness"),
        ("from random import random", "random()", "random.random: a plugin has no randomness"),
        ("import random", "random.Random()", "no randomness"),
        ("import uuid", "uuid.uuid4()", "os.urandom: a plugin has no randomness"),
        ("import secrets", "secrets.token_hex()", "no randomness"),
        ("import os", "os.environ['HOME']", "os.environ['HOME']: a plugin has no environment: take request.config"),
        ("", "open('/etc/passwd')", "SandboxError: open: a plugin has no files"),
        ("from pathlib import Path", "Path('/etc/passwd').read_text()", "a plugin has no files"),
        ("import os", "os.listdir('/')", "os.listdir: a plugin has no files"),
        ("import socket", "socket.create_connection(('localhost', 80))", "a plugin has no network"),
        ("", "import decimal", "ModuleNotFoundError: the module decimal is not in the component: import it at the top"),
    ],
)
def test_what_a_plugin_does_not_have_says_so(built, called, said):
    assert said in in_sandbox(built, called)


@pytest.mark.parametrize(
    ("built", "called", "printed"),
    [
        ("import time; at = time.time(); import random; one = random.random()", "print(at > 0, one < 1)", "True True"),
        ("import os", "print(os.environ.get('HOME'), os.getenv('HOME', 'none'))", "None none"),
        ("import random", "print(random.Random(1).random() == random.Random(1).random())", "True"),
        ("import time", "print(time.gmtime(0).tm_year, time.strftime('%Y', time.gmtime(0)))", "1970 1970"),
        ("import json", "import json; print(json.dumps([]))", "[]"),
        (
            "from datetime import datetime, timedelta, timezone",
            "at = datetime(2026, 1, 1, tzinfo=timezone.utc); print(at + timedelta(1) > at, isinstance(at, datetime), "
            "datetime.fromisoformat('2026-01-01T00:00:00+00:00') == at)",
            "True True True",
        ),
        ("import traceback", "\n    try: 1 / 0\n    except ZeroDivisionError: print(traceback.format_exc())", "ZeroDiv"),
        ("import uuid", "print(uuid.uuid5(uuid.NAMESPACE_DNS, 'a').version)", "5"),
    ],
)
def test_what_needs_nothing_from_outside_works(built, called, printed):
    assert printed in in_sandbox(built, called)
