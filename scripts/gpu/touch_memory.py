#!/usr/bin/env python3
"""Uses the host's memory once, and says how much there was before and after.

Virtual machines may be given memory as they use it, and until then programs see too little of it.

usage: touch_memory.py
"""

import mmap
import pathlib
import re
import time

STEP = 2**30
LEAST_LEFT = 2 * STEP
PAGE = bytes(2**20 - 1) + b"1"


def bytes_of(what):
    """MemTotal or MemAvailable."""
    return int(re.search(rf"^{what}: +(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)[1]) * 2**10


def main():
    before = bytes_of("MemTotal")
    held = []
    waited = 0
    while waited < 3:  # more may come a little later
        if bytes_of("MemAvailable") < LEAST_LEFT:
            time.sleep(1)
            waited += 1
            continue
        held.append(mmap.mmap(-1, STEP))
        while held[-1].tell() < STEP:
            held[-1].write(PAGE)
        waited = 0
    print(f"host memory: {before / 2**30:.1f} GiB, after using it {bytes_of('MemTotal') / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
