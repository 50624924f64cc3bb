#!/usr/bin/env python3
"""Processes that torchrun launches find each other by its agent's store.

usage: torchrun.py RANK    build/bin/rank
"""

import os
import subprocess
import sys

SIZE = 3
printed = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", str(SIZE),
                          os.path.abspath(sys.argv[1]), "store"],
                         check=True, text=True, stdout=subprocess.PIPE, timeout=120).stdout
expected = [f"torchrun: rank {rank} of {SIZE}, device {rank} of its node; the sum is {SIZE * (SIZE + 1) // 2}"
            for rank in range(SIZE)]
assert printed.splitlines() == expected, printed
print(printed, end="")
