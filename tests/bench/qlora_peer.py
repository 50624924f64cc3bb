#!/usr/bin/env python3
"""Training steps of adapters on an NF4 base, Longshore's beside those of peft with bitsandbytes on the CPU.

usage: qlora_peer.py TRAIN WRITE_BATCHES [--size 512x8,1024x4] [--kinds nf4,double] [--dtype float32,bfloat16]
                     [--policies none,full] [--peers peft,peft_compile] [--rounds 5] [--steps 6]
                     [--minutes 10]

The models are Llamas with weights from a seed, WIDTHxLAYERS; adapters of rank 8 are on all linear layers. Both sides
read the same folder, quantize it themselves (double: with double quantization), begin with the same adapter and train
it on the quickstart's text, AdamW (fused in torch), clipping at 1. The peer's attention is torch's fused one. `full` is
checkpointing of each layer. In bfloat16 the peer has what is not quantized of the base in bfloat16 and computes by
autocast; adapters and moments are float32 on both sides.

A turn is a run of `train` or as many steps of the peer, which waits meanwhile; all have the same number of threads, and
the first two steps of a run or of a peer do not count. A round in which other programs have more than a tenth of a core
is made again. Prints the median step, Longshore's time over the peer's (the median of the rounds' ratios, the least and
the most), and the most memory that each held: Longshore's as it counts itself, the peer's above what its libraries
take. Before that, losses and norms of gradients of the first turn must agree.

MKL, with which torch multiplies float32, has slower code for processors that are not Intel's: on an EPYC (Zen 5) it
reaches 114 GFLOP/s a core, with its own code for AVX-512, and with oneDNN, 263. A library before it, by LD_PRELOAD, with
`int mkl_serv_intel_cpu_true(void) { return 1; }` makes it take the latter.
"""

import argparse
import importlib.util
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "transformers"))

SIZES = {"512x8": {"base_emb_dim": 512, "base_num_decoder_layers": 8, "base_num_query_heads": 8,
                   "base_num_kv_heads": 2, "base_mlp_dim": 1408},
         "1024x4": {"base_emb_dim": 1024, "base_num_decoder_layers": 4, "base_num_query_heads": 16,
                    "base_num_kv_heads": 4, "base_mlp_dim": 2816}}
TEXT = ROOT / ".data" / "quickstart" / "train.tokens"
RUN = {"model_type": "llama", "head_dim": 64, "vocab_size": 8192, "max_target_length": 512, "per_device_batch_size": 2,
       "dataset_type": "tokens", "dataset_path": TEXT, "verify_token_files": "false", "backend": "cpu",
       "peak_tflops_per_device": 1}
RATE, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
ADAPTER = {"lora_rank": 8, "lora_alpha": 16, "learning_rate": RATE, "warmup_steps_fraction": 0,
           "cosine_learning_rate_final_fraction": 1, "adam_b1": BETAS[0], "adam_b2": BETAS[1], "adam_eps": EPS,
           "adam_weight_decay": DECAY, "gradient_clipping_threshold": CLIP}
KINDS = {"nf4": {"frozen_weight_dtype": "nf4"},
         "double": {"frozen_weight_dtype": "nf4", "frozen_weight_double_quantization": "true"}}
CALM = 0.1  # of a core, the most that others may have in a turn
TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP = 2  # torch.compile compiles in the first
# Relative, of losses and of norms of gradients. In bfloat16 the two round at other places.
LOSS_TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-4}
NORM_TOLERANCE = {"float32": 1e-3, "bfloat16": 2e-2}


# --- the peer, a process of its own ------------------------------------------------------------------------------


def peft_step(folder, kind, dtype, policy, compiled):
    """A function that makes a step and returns its loss and the norm of its gradient."""
    import itertools
    import peft
    import quantized_base
    import torch
    import transformers
    from safetensors.torch import load_file

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    kinds = {"nf4": quantized_base.NF4, "double": quantized_base.DOUBLE}
    base, _ = quantized_base.load(folder / "base" / "model", kinds[kind], getattr(torch, dtype))
    base.set_attn_implementation("sdpa")
    model = peft.PeftModel.from_pretrained(base, folder / "adapter" / "adapter", is_trainable=True).train()
    if policy == "full":
        base.gradient_checkpointing_enable({"use_reentrant": False})
        base.disable_input_require_grads()  # not needed so; torch.compile would break the graph there
    call = torch.compile(model) if compiled else model
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True)
    batches = load_file(folder / "batches.safetensors")
    rows = itertools.cycle(zip(batches["train.tokens"].long(), batches["train.targets"].long()))

    def step():
        tokens, targets = next(rows)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            logits = call(input_ids=tokens, use_cache=False).logits.float()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item(), norm.item()

    return step


PEERS = {"peft": False, "peft_compile": True}  # whether it is compiled


def work(peer, folder, kind, dtype, policy):
    """What a peer's process does: a turn for each line that it reads."""
    import peft, quantized_base, torch, bitsandbytes  # noqa: F401,E401
    print("started", flush=True)
    step = peft_step(pathlib.Path(folder), kind, dtype, policy, PEERS[peer])
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the most memory from here on
    print("ready", flush=True)
    for line in sys.stdin:
        records = []
        for _ in range(int(line)):
            start = time.perf_counter()
            loss, norm = step()
            records.append({"seconds": time.perf_counter() - start, "loss": loss, "grad_norm": norm})
        print(json.dumps(records), flush=True)


# --- side by side ------------------------------------------------------------------------------------------------


def keys_of(*settings):
    return [f"{key}={value}" for setting in settings for key, value in setting.items()]


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"qlora_peer: {command[0]} failed:\n{done.stdout}")


def busy_seconds():
    """Of all cores, since the system started."""
    user, nice, system, _, _, *interrupts = (int(word) for word in pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + sum(interrupts)) / TICKS


class Contender:
    def __init__(self, name):
        self.name, self.first, self.memory = name, None, 0

    def turn(self, steps):
        """The median step of so many; and how many cores others had meanwhile."""
        start, before = time.monotonic(), busy_seconds() - self.processor_seconds()
        records = self.steps(steps)
        others = (busy_seconds() - self.processor_seconds() - before) / (time.monotonic() - start)
        self.first = self.first or records
        return statistics.median(record["seconds"] for record in records[-steps:]), max(others, 0)


class Longshore(Contender):
    runs = 0

    def __init__(self, train, folder, keys):
        super().__init__("longshore")
        self.command, self.folder = [train, "--config", folder / "model.yml", *keys], folder

    def steps(self, count):
        """Of a run, which has some before those that count."""
        Longshore.runs += 1
        name = f"run{Longshore.runs}"
        run(*self.command, f"steps={WARM_UP + count}", f"run_name={name}", "enable_checkpointing=false")
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        records = [record for record in map(json.loads, lines) if "loss" in record]
        self.memory = (records[-1]["device_peak_bytes"] + records[-1]["pinned_host_peak_bytes"]) / 2**20
        return records

    def processor_seconds(self):
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # peers are not, before the last turn
        return ended.ru_utime + ended.ru_stime

    def end(self):
        pass


class Peer(Contender):
    def __init__(self, name, folder, kind, dtype, policy):
        super().__init__(name)
        command = [sys.executable, "-P", "-W", "ignore::FutureWarning", __file__, "--worker", name, folder, kind,
                   dtype, policy]
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.expect("started")
        self.libraries = self.resident("VmRSS")
        self.expect("ready")

    def expect(self, word):
        while line := self.process.stdout.readline():
            if line.strip() == word:
                return
        sys.exit(f"qlora_peer: {self.name} ended before it was {word}")

    def resident(self, kind):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(kind + ":"))

    def steps(self, count):
        self.process.stdin.write(f"{WARM_UP + count if self.first is None else count}\n")
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"qlora_peer: {self.name} ended in a step")
        return json.loads(answer)

    def processor_seconds(self):
        after_name = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(word) for word in after_name[11:13]) / TICKS

    def end(self):
        self.memory = self.resident("VmHWM") - self.libraries
        self.process.stdin.close()
        self.process.wait()


def expect_same_work(ours, theirs, dtype):
    for step, (a, b) in enumerate(zip(ours.first, theirs.first, strict=True)):
        what = f"{theirs.name}, step {step}: {b}, Longshore {a}"
        assert math.isclose(a["loss"], b["loss"], rel_tol=LOSS_TOLERANCE[dtype]), what
        assert math.isclose(a["grad_norm"], b["grad_norm"], rel_tol=NORM_TOLERANCE[dtype]), what


def calm_rounds(arguments, contenders):
    """The median step of each contender in each round in which nobody disturbed them; and how many others there were
    before there were enough of these, or until time was over."""
    end, calm, disturbed = time.monotonic() + 60 * arguments.minutes, [], 0
    while len(calm) < arguments.rounds and time.monotonic() < end:
        seconds = {}
        for contender in contenders if len(calm) % 2 else reversed(contenders):
            seconds[contender], others = contender.turn(arguments.steps)
            if others > CALM:
                break
        else:
            calm.append(seconds)
            continue
        disturbed += 1
        time.sleep(1)
    return calm, disturbed


def compare(arguments, size, folder, kind, dtype, policy):
    ours = Longshore(arguments.train, folder, keys_of(
        ADAPTER, KINDS[kind], {"load_parameters_path": folder / "base" / "model", "dtype": dtype,
                               "load_adapter_path": folder / "adapter" / "adapter", "remat_policy": policy}))
    contenders = [ours, *(Peer(name, folder, kind, dtype, policy) for name in arguments.peers)]
    for contender in contenders:  # a turn that does not count, whose results are compared
        contender.turn(arguments.steps)
    for contender in contenders[1:]:
        expect_same_work(ours, contender, dtype)
    rounds, disturbed = calm_rounds(arguments, contenders)
    print(f"{size}, {dtype}, {kind}, {policy}: {len(rounds)} rounds, and {disturbed} that others disturbed", flush=True)
    for contender in contenders:
        contender.end()
        if not rounds:
            continue
        measured = [seconds[contender] for seconds in rounds]
        ratios = [seconds[ours] / seconds[contender] for seconds in rounds]
        apart = max(abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(ours.first, contender.first))
        print(f"  {contender.name:14} {statistics.median(measured):8.4f} s   x {statistics.median(ratios):5.3f}"
              f" ({min(ratios):.3f} to {max(ratios):.3f})   {contender.memory:7.1f} MiB"
              f"   losses {contender.first[0]['loss']:.4f} to {contender.first[-1]['loss']:.4f}, apart {apart:.1e}",
              flush=True)


def prepare(arguments, size, folder):
    """What both sides begin with: weights, an adapter, batches. At a learning rate of 0 a run saves what it begins
    with."""
    lines = {**RUN, **SIZES[size], "base_output_directory": folder}
    (folder / "model.yml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    train = [arguments.train, "--config", folder / "model.yml", "steps=1", "dtype=float32"]
    run(*train, "run_name=base", "learning_rate=0")
    base = {"load_parameters_path": folder / "base" / "model"}
    run(*train, *keys_of(ADAPTER | base | {"learning_rate": 0}), "run_name=adapter")
    run(arguments.write_batches, folder / "batches.safetensors", folder / "model.yml",
        f"steps={WARM_UP + arguments.steps}")


def chosen(text, known):
    words = text.split(",") if text else []
    for word in words:
        if word not in known:
            raise argparse.ArgumentTypeError(f"found {word}, expected one of {', '.join(known)}")
    return words


def main():
    if sys.argv[1:2] == ["--worker"]:
        return work(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    from processor import multiplies_bfloat16  # imports torch, which a worker does at its own time
    parser.add_argument("train", type=pathlib.Path)
    parser.add_argument("write_batches", type=pathlib.Path)
    for name, known in (("size", SIZES), ("kinds", KINDS), ("dtype", LOSS_TOLERANCE), ("policies", ["none", "full"]),
                        ("peers", PEERS)):
        parser.add_argument(f"--{name}", default=list(known), type=lambda text, known=known: chosen(text, known))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="that count, of each turn")
    parser.add_argument("--minutes", type=float, default=10, help="at most, for the rounds of a case")
    arguments = parser.parse_args()
    if importlib.util.find_spec("bitsandbytes") is None:
        sys.exit("qlora_peer: no bitsandbytes; scripts/setup --transformers brings it")
    if not TEXT.exists():
        sys.exit(f"qlora_peer: no {TEXT}; scripts/quickstart_data makes it")
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    for size in arguments.size:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            prepare(arguments, size, folder)
            for dtype in arguments.dtype:
                if dtype == "bfloat16" and not multiplies_bfloat16():
                    print("no bfloat16: this processor has no AVX-512")
                    continue
                for kind in arguments.kinds:
                    for policy in arguments.policies:
                        compare(arguments, size, folder, kind, dtype, policy)


main()
