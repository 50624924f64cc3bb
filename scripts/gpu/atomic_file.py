"""Files that are there whole or not at all."""

import json
import os
import shutil


def write_text(path, text):
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    os.replace(beside, path)


def copy_whole(path, to):
    beside = to.with_name(to.name + ".new")
    shutil.copyfile(path, beside)
    os.replace(beside, to)


def read_json(path):
    """None where there is nothing to read, or something else."""
    try:
        return json.loads(path.read_text(errors="replace"))
    except (OSError, ValueError):
        return None


def write_json(path, value):
    write_text(path, json.dumps(value, indent=1) + "\n")
