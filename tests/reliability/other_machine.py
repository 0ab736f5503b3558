"""Run the tests as on another machine: no network, an empty home directory, another locale, time zone and umask.

    PYTHONPATH=tests python -m reliability.other_machine [--cores N] [--load N] -- [arguments of pytest]

The process that becomes pytest gets its own Linux namespaces for the network (its loopback works) and for mounts (its
home is an empty read-only file system), a few variables, and ``umask 077``. That needs root, or the right to create
user namespaces. What is missing is reported, and the exit code is 2, because an incomplete test could be mistaken for
a complete one.
"""

from __future__ import annotations

import argparse
import contextlib
import locale
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

from support.patience import PATIENCE_S

from pybatsched.cli.common.arguments import natural, positive

#: Where i is not the small I, bytes are not UTF-8, and a number's point is a comma; where the zone is not whole hours.
LOCALES: Final = ("tr_TR.ISO-8859-9", "de_DE.ISO-8859-1", "C")
TIME_ZONE: Final = "Asia/Kathmandu"
MASK: Final = 0o077
#: What a shell does inside: the loopback wakes up, home becomes read-only, and then the command.
_INSIDE: Final = 'ip link set lo up && mount -t tmpfs -o ro,size=4k none "$HOME" && exec "$@"'


def main() -> int:
    """Run the command and give pytest's exit code, or 2 if the namespaces cannot be created."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=positive, metavar="N", help="how many of this machine's cores there are (all)")
    parser.add_argument("--load", type=natural, default=0, metavar="N", help="processes that only run beside it")
    parser.add_argument("pytest_args", nargs="*", metavar="ARG", help="for pytest: options and files, after --")
    args = parser.parse_args()
    missing = [program for program in ("unshare", "ip", "mount") if shutil.which(program) is None]
    if missing:
        print(f"make elsewhere: this needs {', '.join(missing)}", file=sys.stderr)
        return 2
    if args.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    own = {name: text for name, text in os.environ.items() if name.startswith("PYBATSCHED_") or name == "PATH"}
    # Python must not replace the locale by UTF-8.
    own |= {"LC_ALL": unusual_locale(), "TZ": TIME_ZONE, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    about = f"LC_ALL={own['LC_ALL']}, TZ={TIME_ZONE}, umask {MASK:03o}, an empty home, no network"
    print(f"{sys.executable}: {about}; {len(os.sched_getaffinity(0))} cores, load {args.load}", flush=True)
    with tempfile.TemporaryDirectory() as home, loaded(args.load):
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = ["unshare", *as_root, "--net", "--mount", "sh", "-c", _INSIDE, "sh", sys.executable, "-m", "pytest"]
        with subprocess.Popen([*command, *args.pytest_args], env=own | {"HOME": home}, umask=MASK) as tests:
            # patience: the tests have their own limits
            return tests.wait()


def unusual_locale() -> str:
    """Return the first of LOCALES that this machine has."""
    for name in LOCALES:
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)
            return name
    raise AssertionError("every machine has the locale C")


@contextlib.contextmanager
def loaded(n: int) -> Iterator[None]:
    """Run busy processes on the same cores with the same priority until the block ends."""
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait(PATIENCE_S)


if __name__ == "__main__":
    sys.exit(main())
