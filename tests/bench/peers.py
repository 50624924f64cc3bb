#!/usr/bin/env python3
"""Training steps of Longshore beside those of its peers, on the same weights and batch.

usage: peers.py BENCH_STEP [--size S,M,E] [--dtype float32,bfloat16] [--policies none,full] [--rounds 5]
                [--peers eager,compile,transformers,transformers_compile,jax]

Each program is a process of its own that makes a step when it is told to, so that they take turns,
a step each; all have the same number of threads. Prints the median step, Longshore's time over
the peer's (the median of the turns' ratios), the most memory that each held above what its
libraries take, and the losses of the first steps, which must agree to four digits.

The peers: a plain Llama in PyTorch (eager, and under torch.compile), transformers, also under
torch.compile, and JAX with the layers in a scan; of the mixture of experts (E) transformers' two, with
grouped products. In bfloat16 all keep float32 weights: torch by autocast, JAX by a cast in the
step. `full` is checkpointing of each layer. AdamW (fused in torch), clipping at 1.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"

sys.path.append(str(pathlib.Path(__file__).parent))  # last: files there have names of libraries

RATE, BETAS, EPS, DECAY, CLIP = 1e-4, (0.9, 0.95), 1e-8, 0.1, 1.0  # as in plain_llama.py
LOSSES, TOLERANCE = 3, 5e-4  # of the first steps, relative


# --- what trains -------------------------------------------------------------------------------------------------


def rows(folder, name):
    return [[int(word) for word in line.split()] for line in (folder / name).read_text().splitlines()]


def theta_of(config):
    return config["rope_parameters"]["rope_theta"] if "rope_parameters" in config else config["rope_theta"]


def torch_parts(folder):
    import torch
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    return torch, torch.tensor(rows(folder, "tokens")), torch.tensor(rows(folder, "targets"))


def plain_llama(folder, checkpointed_of):
    import json
    from plain_llama import Llama
    from safetensors.torch import load_file

    config = json.loads((folder / "model" / "config.json").read_text())
    config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    config["rope_theta"] = theta_of(config)
    model = Llama(config, checkpointed_of)
    weights = {}
    for file in (folder / "model").glob("*.safetensors"):
        weights |= load_file(file)
    model.load_state_dict({name.removeprefix("model."): weight for name, weight in weights.items()})
    return model


def eager(folder, dtype, policy, compiled=False):
    torch, tokens, targets = torch_parts(folder)
    from plain_llama import training_step
    model = plain_llama(folder, 1 if policy == "full" else 0)
    call = torch.compile(model) if compiled else model
    return training_step(model, [lambda: call(tokens, targets)], dtype)


def compile_(folder, dtype, policy):
    return eager(folder, dtype, policy, compiled=True)


def transformers(folder, dtype, policy, compiled=False):
    torch, tokens, targets = torch_parts(folder)
    import transformers as library
    from plain_llama import training_step
    model = library.AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.float32, attn_implementation="sdpa",
        experts_implementation="grouped_mm").train()
    if policy == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})

    call = torch.compile(model) if compiled else model

    def loss_of():
        logits = call(input_ids=tokens, use_cache=False).logits.float()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return training_step(model, [loss_of], dtype)


def transformers_compile(folder, dtype, policy):
    return transformers(folder, dtype, policy, compiled=True)


def jax(folder, dtype, policy):
    """The layers in a scan, as MaxText has them."""
    import json
    import jax as library
    import jax.numpy as jnp
    import numpy
    from safetensors.numpy import load_file

    config = json.loads((folder / "model" / "config.json").read_text())
    heads, kv_heads, width = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "hidden_size"))
    head_dim = config.get("head_dim") or width // heads
    theta = theta_of(config)
    tokens, targets = (jnp.array(numpy.array(rows(folder, name), "int32")) for name in ("tokens", "targets"))
    batch, length = tokens.shape
    loaded = {}
    for file in (folder / "model").glob("*.safetensors"):
        loaded |= load_file(file)
    first = "model.layers.0."
    names = [name.removeprefix(first) for name in loaded if name.startswith(first)]
    parameters = {
        "layers": {name: numpy.stack([loaded[f"model.layers.{i}.{name}"] for i in range(config["num_hidden_layers"])])
                   for name in names},
        "embed": loaded["model.embed_tokens.weight"], "norm": loaded["model.norm.weight"],
        "head": loaded["lm_head.weight"]}
    parameters = library.tree.map(jnp.array, parameters)
    angle = jnp.outer(jnp.arange(length), theta ** (-jnp.arange(0, head_dim, 2) / head_dim))
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    compute = jnp.bfloat16 if dtype == "bfloat16" else jnp.float32

    def norm(x, weight):
        wide = x.astype(jnp.float32)
        scale = library.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + config["rms_norm_eps"])
        return (wide * scale * weight).astype(x.dtype)

    def rotate(x):
        a, b = jnp.split(x.astype(jnp.float32), 2, -1)
        return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1).astype(x.dtype)

    def layer(x, w):
        def project(y, name):
            return y @ w[name].astype(compute).T
        y = norm(x, w["input_layernorm.weight"])
        q = rotate(project(y, "self_attn.q_proj.weight").reshape(batch, length, heads, head_dim))
        k = rotate(project(y, "self_attn.k_proj.weight").reshape(batch, length, kv_heads, head_dim))
        v = project(y, "self_attn.v_proj.weight").reshape(batch, length, kv_heads, head_dim)
        y = library.nn.dot_product_attention(q, k, v, is_causal=True).reshape(batch, length, -1)
        x = x + project(y, "self_attn.o_proj.weight")
        y = norm(x, w["post_attention_layernorm.weight"])
        gated = library.nn.silu(project(y, "mlp.gate_proj.weight")) * project(y, "mlp.up_proj.weight")
        return x + project(gated, "mlp.down_proj.weight"), None

    body = library.checkpoint(layer) if policy == "full" else layer

    def loss_of(p):
        x, _ = library.lax.scan(body, p["embed"].astype(compute)[tokens], p["layers"])
        logits = (norm(x, p["norm"]) @ p["head"].astype(compute).T).astype(jnp.float32)
        chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return jnp.mean(library.nn.logsumexp(logits, -1) - chosen)

    def update(state):
        p, first_moment, second_moment, number = state
        loss, gradient = library.value_and_grad(loss_of)(p)
        total = jnp.sqrt(sum(jnp.sum(g * g) for g in library.tree.leaves(gradient)))
        clip = jnp.minimum(1.0, CLIP / (total + 1e-6))
        number = number + 1
        gradient = library.tree.map(lambda g: g * clip, gradient)
        first_moment = library.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, first_moment, gradient)
        second_moment = library.tree.map(lambda m, g: BETAS[1] * m + (1 - BETAS[1]) * g * g, second_moment, gradient)

        def moved(path, w, m, v):
            is_norm = "norm" in library.tree_util.keystr(path)
            step = m / (1 - BETAS[0] ** number) / (jnp.sqrt(v / (1 - BETAS[1] ** number)) + EPS)
            return w - RATE * (step + (0.0 if is_norm else DECAY) * w)

        return (library.tree_util.tree_map_with_path(moved, p, first_moment, second_moment), first_moment,
                second_moment, number), loss

    update = library.jit(update, donate_argnums=0)
    zeros = [library.tree.map(jnp.zeros_like, parameters) for _ in range(2)]
    state = (parameters, *zeros, jnp.array(0.0))
    del parameters, loaded, zeros

    def step():
        nonlocal state
        state, loss = update(state)
        return float(loss)

    return step


PEERS = {"eager": eager, "compile": compile_, "transformers": transformers,
         "transformers_compile": transformers_compile, "jax": jax}
OF_EXPERTS = ["transformers", "transformers_compile"]


def work(peer, folder, dtype, policy):
    """What a process of a peer does."""
    if peer == "jax":
        import jax as _, safetensors.numpy  # noqa: F401
    else:
        import torch, safetensors.torch  # noqa: F401,E401
    print("started", flush=True)
    step = PEERS[peer](folder, dtype, policy)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        loss = step()
        print(f"{time.perf_counter() - start:.6f} {loss:.6f}", flush=True)


# --- side by side ------------------------------------------------------------------------------------------------


class Contender:
    def __init__(self, name, command):
        self.name, self.seconds, self.losses = name, [], []
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.expect("started")
        self.libraries = self.memory("VmRSS")
        self.expect("ready")

    def expect(self, word):
        while line := self.process.stdout.readline():
            if line.strip() == word:
                return
        sys.exit(f"peers: {self.name} ended before it was {word}")

    def memory(self, kind):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(kind + ":"))

    def step(self):
        self.process.stdin.write("step\n")
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            sys.exit(f"peers: {self.name} ended in a step")
        self.seconds.append(float(answer[0]))
        self.losses.append(float(answer[1]))

    def end(self):
        peak = self.memory("VmHWM") - self.libraries
        self.process.stdin.close()
        self.process.wait()
        return peak


def compare(arguments, size, dtype, policy):
    with tempfile.TemporaryDirectory() as folder:
        ours = Contender("longshore", [arguments.bench_step, "--size", size, "--dtype", dtype, "--policies", policy,
                                       "--serve", folder])
        contenders = [ours] + [
            Contender(peer, [sys.executable, "-P", __file__, "--worker", peer, folder, dtype, policy])
            for peer in arguments.peers if size != "E" or peer in OF_EXPERTS]
        for turn in range(WARM_UP + arguments.rounds):
            for contender in contenders if turn % 2 else reversed(contenders):
                contender.step()
        print(f"{size}, {dtype}, {policy}")
        for contender in contenders:
            measured = contender.seconds[WARM_UP:]
            ratio = statistics.median(a / b for a, b in zip(ours.seconds[WARM_UP:], measured))
            print(f"  {contender.name:14} {statistics.median(measured):8.4f} s   x {ratio:5.2f}"
                  f"   {contender.end():8.1f} MiB   losses {contender.losses[:LOSSES]}", flush=True)
        for contender in contenders[1:]:
            for a, b in zip(ours.losses[:LOSSES], contender.losses):
                assert abs(a - b) <= TOLERANCE * a, f"{contender.name}: loss {b}, Longshore {a}"


def chosen(text, known):
    words = text.split(",")
    for word in words:
        if word not in known:
            raise argparse.ArgumentTypeError(f"found {word}, expected one of {', '.join(known)}")
    return words


WARM_UP = 2  # torch.compile and JAX compile in the first


def main():
    if sys.argv[1:2] == ["--worker"]:
        peer, folder, dtype, policy = sys.argv[2:]
        return work(peer, pathlib.Path(folder), dtype, policy)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench_step")
    for name, known in (("size", ["S", "M", "E"]), ("dtype", ["float32", "bfloat16"]), ("policies", ["none", "full"]),
                        ("peers", list(PEERS))):
        parser.add_argument(f"--{name}", default=known, type=lambda text, known=known: chosen(text, known))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    os.environ["OMP_WAIT_POLICY"] = "passive"  # who waits for a turn is not to spin
    for size in arguments.size:
        for dtype in arguments.dtype:
            for policy in arguments.policies:
                compare(arguments, size, dtype, policy)


main()
