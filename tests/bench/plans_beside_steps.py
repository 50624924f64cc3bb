#!/usr/bin/env python3
"""How far plans are from steps that were measured: in time, and in device memory as the system tells it.

usage: plans_beside_steps.py FOLDER [--json F]

FOLDER has, for each model, steps_MODEL.json, which compare wrote, and plans_MODEL.PROFILE.json, which plan wrote
with that profile for policies among compare's. Memory in use has in it what drivers and libraries take, which a
profile says as device_reserved_bytes; of a processor it is the process's resident set. Of each profile it ends
with the median error of time, the pairs of policies whose steps differ by more than 5 % but were predicted in
the other order, and the largest difference of memory.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"))
from atomic_file import write_json  # noqa: E402

MIB = 2**20
DIFFERENT = 1.05  # steps that differ by less may come in any order


def plans_of(path):
    """By policy: what was planned, and what was measured where it was."""
    return {plan["policy"]: plan for plan in json.loads(path.read_text())["plans"]}


def row_of(model, policy, planned, measured):
    return {"model": model, "policy": policy,
            "measured_seconds": measured["step_seconds"], "predicted_seconds": planned["step_seconds"],
            "time_error": planned["step_seconds"] / measured["step_seconds"] - 1,
            "used_device_bytes": measured["used_device_bytes"],
            "predicted_used_device_bytes": planned["used_device_bytes"]}


def swapped_pairs(rows):
    """How many pairs of a model differ, and those that were predicted in the other order."""
    count, swapped = 0, []
    for a, b in itertools.permutations(rows, 2):
        if a["model"] != b["model"] or b["measured_seconds"] < DIFFERENT * a["measured_seconds"]:
            continue
        count += 1
        if b["predicted_seconds"] < a["predicted_seconds"]:
            swapped.append(f"{a['model']}: {a['policy']} before {b['policy']}")
    return count, swapped


def print_rows(profile, rows):
    print(f"{profile:36} {'step s':>9} {'predicted':>9} {'error':>8}  {'MiB in use':>10} {'predicted':>9} {'off by':>8}")
    for row in rows:
        used, predicted = row["used_device_bytes"] / MIB, row["predicted_used_device_bytes"] / MIB
        print(f"{row['model']:13} {row['policy']:22} {row['measured_seconds']:9.4f} {row['predicted_seconds']:9.4f} "
              f"{100 * row['time_error']:+6.1f} %  {used:10.0f} {predicted:9.0f} {predicted - used:+8.0f}")


def summary_of(rows):
    pairs, swapped = swapped_pairs(rows)
    difference = max((row["predicted_used_device_bytes"] - row["used_device_bytes"] for row in rows), key=abs)
    return {"median_time_error": statistics.median(abs(row["time_error"]) for row in rows),
            "pairs": pairs, "swapped_pairs": swapped, "largest_memory_difference_bytes": difference}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = {}  # by profile
    for path in sorted(arguments.folder.glob("plans_*.json")):
        model, profile = path.stem.removeprefix("plans_").split(".", 1)
        steps = arguments.folder / f"steps_{model}.json"
        if not steps.exists():
            continue
        measured = plans_of(steps)
        rows.setdefault(profile, []).extend(
            row_of(model, policy, planned, measured[policy]["measured"])
            for policy, planned in plans_of(path).items() if measured.get(policy, {}).get("measured"))
    results = {}
    for profile, of_profile in rows.items():
        if not of_profile:
            continue
        summary = summary_of(of_profile)
        print_rows(profile, of_profile)
        print(f"median error of time {100 * summary['median_time_error']:.1f} %; "
              f"{len(summary['swapped_pairs'])} of {summary['pairs']} pairs in the wrong order; "
              f"memory off by {summary['largest_memory_difference_bytes'] / MIB:+.0f} MiB at most")
        for pair in summary["swapped_pairs"]:
            print(f"  {pair}")
        print()
        results[profile] = {"summary": summary, "rows": of_profile}
    if not results:
        sys.exit(f"plans_beside_steps: {arguments.folder}: found no steps with plans beside them, "
                 "expected steps_MODEL.json and plans_MODEL.PROFILE.json")
    if arguments.json:
        write_json(arguments.json, results)


main()
