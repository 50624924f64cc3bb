"""What parts of scripts/gpu_check said and measured, as one file to read on, and a page to read."""

import pathlib
import re
import tarfile
import zlib

import gpu_targets
from atomic_file import copy_whole, read_json, write_json, write_text
from timed_commands import print_or_go_on


def is_result(path):
    """Whether a part left it, and not somebody who put a pack there, say."""
    return path.suffix in (".json", ".md", ".yml")


class Results:
    """Those of a folder, which for lack of its own may come out of state.tar.gz, all of another one's but that file.
    `copies`: a folder that gets the three files that matter after each part."""

    def __init__(self, logs, copies=None):
        self.logs, self.copies = logs, copies
        self.file = logs / "results.json"
        self.state = logs / "state.tar.gz"
        if self.state.exists() and not self.file.exists():
            try:
                with tarfile.open(self.state) as packed:
                    # Debian 12's Python has no filters yet.
                    packed.extractall(logs, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            except (OSError, EOFError, tarfile.TarError, zlib.error) as failure:
                print_or_go_on(f"gpu_check: {self.state} is damaged ({failure}): what can be read of it is used")
                self.state.replace(self.state.with_suffix(".damaged"))

    def keep_to(self, gpu):
        """Puts what was measured on another model of GPU into a folder of its name, and takes out what that of this one has."""
        before = (read_json(self.logs / "device.json") or {}).get("name")
        if not gpu or not before or gpu == before:
            return
        theirs, ours = (self.logs / re.sub(r"\W+", "_", name) for name in (before, gpu))
        theirs.mkdir(exist_ok=True)
        for path in self.logs.iterdir():
            if path.is_file() and is_result(path):
                path.replace(theirs / path.name)
        for path in ours.iterdir() if ours.exists() else []:
            path.replace(self.logs / path.name)

    def parts(self):
        """By name, in the order of their first calls: verdict, seconds, build and text."""
        return (read_json(self.file) or {}).get("parts", {})

    def targets(self):
        return gpu_targets.targets(read_json(self.file) or {})

    def add(self, name, part):
        """A part's newest, with what it left in JSON. One that was left out leaves an earlier one's."""
        parts = self.parts()
        if part["verdict"] != "left out" or name not in parts:
            parts[name] = part
        results = {"parts": parts}
        for path in sorted(self.logs.glob("*.json")):
            if path.stem not in ("results", "trace") and not path.stem.startswith("plans_"):
                results[path.stem] = read_json(path)
        targets = gpu_targets.targets(results)
        results["targets"] = [target.as_json() for target in targets]
        write_json(self.file, results)
        device = results.get("device") or {}
        page = (f"# What was run on a GPU\n\n{device.get('name', 'no GPU')}, driver {device.get('driver', 'none')}; "
                f"{part['when']}\n\n```\n{gpu_targets.table(targets)}\n```\n")
        for name, part in parts.items():
            page += (f"\n## {name}: {part['verdict']}, {part['seconds']} s, build {part['build']}, "
                     f"{part.get('backend', 'cuda')}, {part['when']}\n\n```\n{part['text']}\n```\n")
        write_text(self.logs / "results.md", page)
        self.pack()
        if self.copies:
            for path in (self.file, self.logs / "results.md", self.state):
                copy_whole(path, self.copies / path.name)

    def pack(self):
        draft = self.state.with_suffix(".partial")
        with tarfile.open(draft, "w:gz") as packed:
            for path in sorted(self.logs.iterdir()):
                if is_result(path) or path.is_dir() and path.name != "alone":
                    packed.add(path, path.name, filter=lambda entry: entry if entry.isdir() or
                               is_result(pathlib.PurePath(entry.name)) else None)
        draft.replace(self.state)
