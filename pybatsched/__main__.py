"""``python -m pybatsched`` is the pybatsched command, and this is where it begins.

A signal may come before anything of ours is loaded, and loading is most of what a short command does. So this module
begins with next to nothing, and loads the rest with a handler in place: all that is imported here is part of the
interpreter, and there before this module is.
"""

import os
import sys

TYPE_CHECKING = False  # as in typing, which takes its time
if TYPE_CHECKING:
    import signal
    from types import FrameType
    from typing import NoReturn
else:
    import _signal as signal  # what `signal` is made of; the module itself loads more


def main() -> int:
    """Run the command line of this process and give its exit code."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else somebody has said to ignore it
    if is_ours:
        signal.signal(signal.SIGINT, _leave)
    from pybatsched.cli.common import process  # noqa: PLC0415  see above

    return process.run(is_ours)


def _leave(signum: int, _frame: "FrameType | None") -> "NoReturn":
    """End at once: there is nothing yet that must be put away."""
    try:
        os.write(2, f"pybatsched: interrupted by signal {int(signum)}\n".encode())
    finally:
        os._exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
