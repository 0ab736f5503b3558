"""Entry point of the pybatsched command. It handles SIGINT before it loads modules, which takes most of the time."""

import os
import sys

TYPE_CHECKING = False  # as in typing, which is slow to import
if TYPE_CHECKING:
    import signal
    from types import FrameType
    from typing import NoReturn
else:
    import _signal as signal  # the C part of `signal`; the module itself imports more


def main() -> int:
    """Run the command line of this process and return its exit code."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the parent process ignores SIGINT
    if is_ours:
        signal.signal(signal.SIGINT, _exit_at_once)
    from pybatsched.cli.common import process  # noqa: PLC0415  see above

    return process.run(is_ours)


def _exit_at_once(signum: int, _frame: "FrameType | None") -> "NoReturn":
    """Exit without any clean-up: no file is open yet."""
    try:
        os.write(2, f"pybatsched: interrupted by signal {int(signum)}\n".encode())
    finally:
        os._exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
