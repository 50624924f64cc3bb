"""Starts a program of Longshore with the LibTorch of the torch that is installed beside it."""

import importlib.util
import os
import pathlib
import sys


def library_folders():
    """torch's, and those of what it depends on; torch itself, which takes seconds to import, is not."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        sys.exit("longshore: found no torch, whose LibTorch the programs use; expected it installed, by pip")
    folder = pathlib.Path(torch.submodule_search_locations[0])
    return [folder / "lib", *sorted(folder.parent.glob("nvidia/*/lib"))]


def main():
    launcher = pathlib.Path(__file__).resolve().parent / "bin" / "longshore"
    path = [*map(str, library_folders()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    # What is written in Python runs with this one, which has the packages that were installed beside it.
    programs = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    os.execve(launcher, ["longshore", *sys.argv[1:]],
              {**os.environ, "LD_LIBRARY_PATH": ":".join(path), "PATH": ":".join(programs)})


if __name__ == "__main__":
    main()
