"""What Longshore is to reach on a GPU, and what it reached, from the results of scripts/gpu_check."""

import dataclasses

LIMIT_GIB = 60  # that a plan of auto keeps to, so that it has to choose
ON_HOST = "optimizer_memory_host_offload"
MIB = 2**20
NOISE = 1.01  # of steps that should be alike


@dataclasses.dataclass
class Target:
    what: str
    limit: float
    at_least: bool  # or at most
    unit: str = "%"
    found: float | None = None
    note: str = ""

    @property
    def verdict(self):
        if self.found is None:
            return "not measured"
        return "met" if (self.found >= self.limit if self.at_least else self.found <= self.limit) else "not met"

    def as_json(self):
        return dataclasses.asdict(self) | {"verdict": self.verdict}


def table(rows):
    width = max(len(row.what) for row in rows)
    lines = [f"{'target':{width}} {'limit':>10} {'found':>10}"]
    for row in rows:
        found = "" if row.found is None else f"{row.found:.{1 if row.unit != 'x' else 2}f} {row.unit}"
        limit = f"{'>=' if row.at_least else '<='} {row.limit:g} {row.unit}"
        lines.append(f"{row.what:{width}} {limit:>10} {found:>10}  {row.verdict:12} {row.note}".rstrip())
    return "\n".join(lines)


# --- what was measured


def plans(results, name, workload=None):
    """Those of a compare that have steps."""
    found = (results.get(name) or {}).get("plans", [])
    return [plan for plan in found if (plan.get("measured") or {}).get("step_seconds") and workload in (None, plan["workload"])]


def seconds(plan):
    return plan["measured"]["step_seconds"]


def plans_of(results, names):
    return [plan for name in names for plan in plans(results, name)]


def quickest(of_policies):
    return min(of_policies, key=seconds, default=None)


def flops_per_second(results, name, plan):
    workload = next(w for w in results[name]["workloads"] if w["name"] == plan["workload"])
    return workload["model_flops_per_step"] / seconds(plan)


def ratio_in_percent(part, whole):
    return 100 * part / whole


# --- targets


def steps_of(model):
    """With gradients of attention as sums in a fixed order and, as the peer has them, in any."""
    return [f"steps_{model}", f"steps_{model}_any_order"]


def share_of_products(found, what):
    target = Target(f"{what}: of the rate of products in that run", 80, True)
    best = quickest(found)
    if best and best["measured"].get("mfu"):
        target.found = 100 * best["measured"]["mfu"]
        target.note = f"{best['policy']}, {best['measured']['tokens_per_second_per_device']:.0f} tokens/s"
    return target


def over_peer(results, what, own_names, peer_name):
    target = Target(f"{what}: tokens/s over torch.compile's", 1.2, True, "x")
    own = quickest(plans_of(results, own_names))
    peers = [one for one in results.get(peer_name) or [] if "tokens_per_second" in one]
    if own and peers:
        peer = max(peers, key=lambda one: one["tokens_per_second"])
        target.found = own["measured"]["tokens_per_second_per_device"] / peer["tokens_per_second"]
        target.note = f"its best: {peer['policy']}, {peer['batch']} rows"
        cards = results.get("cards") or {}
        name = next(name for name in own_names if own in plans(results, name))
        if cards.get(name) != cards.get(peer_name):
            target.note += ", on another card of the same model"
    return target


def optimizer_on_host(results, model):
    target = Target(f"{model}, whole: states in host memory, longer by", 5, False)
    here, there = (quickest(plans(results, f"whole_{model}", f"{ON_HOST}={value}")) for value in ("false", "true"))
    if here and there:
        target.found = ratio_in_percent(seconds(there), seconds(here)) - 100
    return target


def share_of_peak(results, name, what):
    target = Target(f"{what}: of the peak", 57, True)
    peak = (results.get("device") or {}).get("peak_flops_per_second")
    best = quickest(plans(results, name))
    if peak and best:
        target.found = ratio_in_percent(flops_per_second(results, name, best), peak)
        target.note = best["policy"]
    return target


def auto_is_quickest(results, name, what):
    target = Target(f"{what}: auto's step over the quickest other's", 100 * NOISE, False)
    found = plans(results, name)
    auto = quickest([plan for plan in found if plan["policy"] == "auto"])
    others = [plan for plan in found if plan["policy"] != "auto"]
    if auto and others:
        other = quickest(others)
        target.found = ratio_in_percent(seconds(auto), seconds(other))
        target.note = f"{other['policy']}, of {len(others)} that fit" + (
            ", the same plan" if auto["memory"] == other["memory"] else "")
    return target


def as_planned(results, model):
    target = Target(f"{model}, 8 layers: qkv_proj_offloaded over full, from the plan's", 5, False)
    rows = (results.get("planner") or {}).get("measured", {}).get("rows", [])
    rows = {row["policy"]: row for row in rows if row["model"] == model}
    if {"full", "qkv_proj_offloaded"} <= rows.keys():
        measured, planned = (rows["qkv_proj_offloaded"][key] / rows["full"][key]
                             for key in ("measured_seconds", "predicted_seconds"))
        target.found = abs(ratio_in_percent(planned, measured) - 100)
        target.note = f"measured {measured:.3f}, planned {planned:.3f}"
    return target


def adapters_as_planned(results):
    target = Target("adapters beside a base in NF4: steps, off the plan's by", 10, False)
    rows = [row for row in (results.get("planner") or {}).get("measured", {}).get("rows", []) if "_nf4" in row["model"]]
    if rows:
        worst = max(rows, key=lambda row: abs(row["time_error"]))
        target.found = 100 * abs(worst["time_error"])
        target.note = f"{worst['model']}, {worst['policy']}, the worst of {len(rows)}"
    return target


def streamed_adapters(results):
    target = Target("llama3_70b, adapters: weights streamed from the host, longer by", 15, False)
    streamed, here = (quickest(plans(results, f"steps_llama3_70b_nf4{ending}")) for ending in ("_streamed", ""))
    if streamed and here:
        target.found = ratio_in_percent(seconds(streamed), seconds(here)) - 100
        target.note = f"{streamed['measured']['tokens_per_second_per_device']:.0f} tokens/s, 16 layers"
    return target


def images_as_planned(results, model):
    target = Target(f"{model}, whole: qkv_proj_offloaded over full, from the plan's", 5, False)
    rows = {plan["policy"]: plan for plan in plans(results, f"images_{model}")}
    if {"full", "qkv_proj_offloaded"} <= rows.keys():
        offloaded, full = rows["qkv_proj_offloaded"], rows["full"]
        measured, planned = seconds(offloaded) / seconds(full), offloaded["step_seconds"] / full["step_seconds"]
        target.found = abs(ratio_in_percent(planned, measured) - 100)
        target.note = f"measured {measured:.3f}, planned {planned:.3f}"
    return target


def hidden_transfers(results):
    target = Target("steps whose plan hides its transfers, longer than without by", 3, False)
    rows = [row for row in (results.get("overlap") or {}).get("rows", [])
            if 100 * (row.get("planned_ratio") or 2) <= 103]
    if rows:
        worst = max(rows, key=lambda row: row["ratio"])
        target.found = 100 * worst["ratio"] - 100
        target.note = f"{worst['what']}, the worst of {len(rows)}"
    return target


def memory(results):
    target = Target("device memory in use, off the plan's by", 256, False, "MiB")
    if summary := (results.get("planner") or {}).get("measured", {}).get("summary"):
        target.found = abs(summary["largest_memory_difference_bytes"]) / MIB
    return target


def same_bits(results):
    target = Target("runs with other losses or norms than none's, of what must be alike", 0, False, "")
    rows = [row for row in results.get("losses") or [] if row["must_be_same"]]
    if rows:
        target.found = sum(row.get("difference") != 0 for row in rows)
        target.note = f"of {len(rows)}"
    return target


def targets(results):
    rows = []
    for model in ("llama3_8b", "llama2_7b"):
        rows += [share_of_products(plans_of(results, steps_of(model)), f"{model}, 8 layers"),
                 share_of_products(plans(results, f"whole_{model}"), f"{model}, whole"),
                 over_peer(results, f"{model}, 8 layers", steps_of(model), f"peer_{model}"),
                 over_peer(results, f"{model}, whole, float32 states", [f"whole_float32_{model}"],
                           f"peer_whole_{model}")]
    rows.append(optimizer_on_host(results, "llama3_8b"))
    rows += [share_of_peak(results, f"steps_llama2_13b{suffix}", f"llama2_13b, 8 layers, rows of {tokens}")
             for suffix, tokens in (("_2048", 2048), ("", 4096), ("_8192", 8192))]
    rows.append(share_of_peak(results, "whole_llama2_13b", "llama2_13b, whole, rows of 4096"))
    rows += [auto_is_quickest(results, f"steps_{model}", f"{model}, 8 layers")
             for model in ("llama3_8b", "llama2_7b", "llama2_13b")]
    rows.append(auto_is_quickest(results, f"steps_llama2_13b_{LIMIT_GIB}gib",
                                 f"llama2_13b, 8 layers, {LIMIT_GIB} GiB"))
    rows += [as_planned(results, model) for model in ("llama3_8b", "llama2_7b", "llama2_13b")]
    for model in ("paligemma2_3b", "paligemma2_10b"):
        rows += [images_as_planned(results, model), auto_is_quickest(results, f"images_{model}", f"{model}, whole")]
    return rows + [adapters_as_planned(results), streamed_adapters(results), hidden_transfers(results), memory(results), same_bits(results)]
