"""Ends the servers of a kernel that is gone. Run as a script, never imported: `python -I -S reaper.py`.

It reads `+GROUP` and `-GROUP` lines (process group ids) on stdin. End of file means that the kernel has ended, however
it ended: SIGKILL included. Then every group still on the list gets SIGTERM and, half a second later, SIGKILL. Groups,
because `npx` and `uvx` start the real server as a grandchild. See docs/adr/0002-reaper.md.
"""

import contextlib
import os
import signal
import sys
import time


def main() -> None:
    groups: set[int] = set()
    for line in iter(sys.stdin.buffer.readline, b""):
        (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or someone else's number by now
                os.killpg(group, number)
        if groups and number == signal.SIGTERM:
            time.sleep(0.5)


if __name__ == "__main__":
    main()
