"""Small runs of five steps that must agree: which, and whether they do."""

import dataclasses
import json
import math

STEPS = 5
TOLERANCE = {"float32": 1e-3, "bfloat16": 3e-2}  # where kernels or the device round differently
PARAMETERS, GRADIENTS, OPTIMIZER = (f"{what}_memory_host_offload=true"
                                    for what in ("parameter", "gradient", "optimizer"))


@dataclasses.dataclass
class Run:
    dtype: str
    name: str
    settings: tuple
    kernels: str = "own"  # or "composed", or the "cpu"'s
    rounds_alike: bool = True  # as the run with nothing offloaded or computed again, to the bit

    @property
    def folder(self):
        return f"{self.dtype}-{self.name}"


def runs():
    none = ("remat_policy=none",)
    for dtype in TOLERANCE:
        yield Run(dtype, "none", none)
        yield Run(dtype, "again", none)
        yield Run(dtype, "everything", ("remat_policy=minimal_offloaded", PARAMETERS, GRADIENTS, OPTIMIZER))
        yield Run(dtype, "composed", none, "composed", False)
        yield Run(dtype, "cpu", none, "cpu", False)
    for policy in ("full", "save_qkv_proj", "qkv_proj_offloaded", "minimal_offloaded"):
        yield Run("bfloat16", policy, (f"remat_policy={policy}",))
    for name, home in (("parameters", PARAMETERS), ("gradients", GRADIENTS), ("optimizer", OPTIMIZER)):
        yield Run("bfloat16", name, (*none, home))
    yield Run("bfloat16", "any_order", (*none, "deterministic=false"), rounds_alike=False)
    yield Run("bfloat16", "updated_on_host", (*none, OPTIMIZER, "optimizer_compute=host"))


RUNS = list(runs())


def values(folder):
    """Loss and gradient norm of each step, or None when the run did not end."""
    try:
        records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    except (OSError, ValueError):  # not begun, or killed within a line
        return None
    steps = [record for record in records if "loss" in record]
    numbers = [step[key] for step in steps for key in ("loss", "grad_norm")]
    return [math.nan if number is None else number for number in numbers] if len(steps) == STEPS else None


def difference(found, expected):
    """The largest, relative."""
    if not all(map(math.isfinite, found)):
        return math.inf
    return max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(found, expected))


def compare(folder, begun):
    """A row of each run in `folder`: none's bits where none itself gives the same twice, or close to them."""
    rows = []
    for dtype, tolerance in TOLERANCE.items():
        expected = values(folder / f"{dtype}-none")
        is_deterministic = expected is not None and values(folder / f"{dtype}-again") == expected
        for run in (run for run in begun if run.dtype == dtype):
            row = {"dtype": dtype, "run": run.name, "good": False, "must_be_same": run.rounds_alike}
            found = values(folder / run.folder)
            if found and expected:
                row |= {"last_loss": found[-2], "difference": difference(found, expected)}
                most = 0 if run.rounds_alike and (is_deterministic or run.name == "again") else tolerance
                row["good"] = row["difference"] <= most
            rows.append(row)
    return rows


def table(rows):
    lines = [f"{'':27} {'last loss':>12} {'largest relative difference from none':>40}"]
    for row in rows:
        if "difference" not in row:
            last, verdict = "", "it, or none, has no five steps"
        else:
            last = f"{row['last_loss']:.7f}"
            verdict = "same bits" if row["difference"] == 0 else f"{row['difference']:.1e}"
        lines.append(f"{row['dtype']:8} {row['run']:18} {last:>12} {('' if row['good'] else 'FAILED: ') + verdict:>40}")
    return "\n".join(lines)
