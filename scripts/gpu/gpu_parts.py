"""The parts of scripts/gpu_check, each a method: what it runs, and what it leaves in the folder of results."""

import functools
import os
import pathlib
import re
import shutil
import sys
import sysconfig

import gpu_losses
import gpu_targets
from atomic_file import read_json, write_json, write_text
from timed_commands import Failure, OutOfTime, TimedCommands
from touch_memory import bytes_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
POLICIES = "full,qkv_proj_offloaded,none,minimal_offloaded"
# Eight layers of each model: all are alike, and more only take longer to fill.
LAYERS = ["base_num_decoder_layers=8"]
# What takes a step's time, by its name: a model, policies (auto alone where a profile is there), settings.
STEPS = {
    "llama3_8b": ("llama3_8b", f"{POLICIES},auto", ["per_device_batch_size=8", "max_target_length=4096"]),
    "llama2_7b": ("llama2_7b", f"{POLICIES},auto", ["per_device_batch_size=8", "max_target_length=4096"]),
    # As the peer computes.
    **{f"{model}_any_order": (model, "none", ["per_device_batch_size=8", "max_target_length=4096",
                                              "deterministic=false"]) for model in ("llama3_8b", "llama2_7b")},
}
STEPS_OF_13B = {
    "llama2_13b": ("llama2_13b", f"{POLICIES},auto", ["per_device_batch_size=8", "max_target_length=4096"]),
    "llama2_13b_2048": ("llama2_13b", "auto", ["per_device_batch_size=16", "max_target_length=2048"]),
    "llama2_13b_8192": ("llama2_13b", "auto", ["per_device_batch_size=4", "max_target_length=8192"]),
    # Where none and minimal do not fit, auto has something to choose; those that plans find quickest are its rivals.
    f"llama2_13b_{gpu_targets.LIMIT_GIB}gib": (
        "llama2_13b", "minimal_offloaded,save_dot_with_context_except_mlp,save_qkv_proj,auto",
        ["per_device_batch_size=8", "max_target_length=4096", f"device_memory_limit={gpu_targets.LIMIT_GIB}"]),
}
# Adapters of rank 16 beside a base in NF4: an 8B whole, and layers of a 70B that are streamed from the host, as on a
# card of 24 GB, and that stay on the device.
ADAPTERS = ["lora_rank=16", "frozen_weight_dtype=nf4"]
ADAPTERS_OF_70B = [*ADAPTERS, "frozen_weight_double_quantization=true", "base_num_decoder_layers=16",
                   "per_device_batch_size=1", "max_target_length=4096"]
STREAMED = ["parameter_memory_host_offload=true", "device_memory_limit=24"]
STEPS_OF_ADAPTERS = {
    "llama3_8b_nf4": ("llama3_8b", "full,none", [*ADAPTERS, "base_num_decoder_layers=32", "per_device_batch_size=2",
                                                 "max_target_length=4096"]),
    "llama3_70b_nf4_streamed": ("llama3_70b", "full", [*ADAPTERS_OF_70B, *STREAMED]),
    "llama3_70b_nf4": ("llama3_70b", "full", ADAPTERS_OF_70B),
}
ALL_STEPS = STEPS | STEPS_OF_13B | STEPS_OF_ADAPTERS
# What tiny steps have of those settings.
KEPT_WHEN_TINY = ("lora_rank", "frozen_weight_dtype", "frozen_weight_double_quantization", "parameter_memory_host_offload")
# All layers: of a model, settings and compare's options. States are as small as they get, so that they leave room for
# activations; gradients of attention are added as the peer adds them.
SMALL_STATES = ["moment_dtype=8bit", "weight_dtype=bfloat16", "deterministic=false"]
WHOLE = {
    "llama3_8b": (["per_device_batch_size=2", "gradient_accumulation_steps=4", *SMALL_STATES],
                  ["--sweep", f"{gpu_targets.ON_HOST}=false,true"]),
    "llama2_13b": (["per_device_batch_size=4", "gradient_accumulation_steps=2", *SMALL_STATES], []),
    "llama2_7b": (["per_device_batch_size=4", "gradient_accumulation_steps=2", *SMALL_STATES], []),
}
# A mixture of experts: a model, policies, settings.
MIXTURE = ("qwen3_30b_a3b", "full,none", ["base_num_decoder_layers=4", "per_device_batch_size=4", "max_target_length=4096"])
# The recipes that train attention behind a frozen tower, whole: a model, and rows at once.
IMAGES = {"paligemma2_3b": 32, "paligemma2_10b": 16}
IMAGE_POLICIES = "full,qkv_proj_offloaded,auto"
# The peer's policies with so many rows at once, as far as memory reaches; a step has as many rows as Longshore's.
PEER_ROWS = 8
PEER_CASES = {"llama3_8b": {"small": "none:2,full:4", "large": "none:8"},
              "llama2_7b": {"small": "none:4,none:8", "large": "none:8"}}
# With all layers, rows of the model's own length and the peer's states, which take 16 bytes for each weight: how many
# rows, and the peer's cases; the last may not fit.
WHOLE_PEER = {"llama3_8b": (8, "full:1,half:1"), "llama2_7b": (16, "none:1,half:2")}
NOT_ITS = ("per_device_batch_size", "peak_tflops_per_device", "dtype")  # of our keys
LARGE_MEMORY_MIB = 120_000
OTHERS_MIB = 1000  # above what a driver takes for itself
LOSS_RUNS = 4  # at once: nobody times them
# Into how many processes tests are split: most of their time goes to what the CPU compares with.
TESTS = {"cuda_ops_test": 6, "golden_test": 2, "cuda_nccl_test": 1}
SHIPPED = {r"\bH200\b": "h200", r"\bH100 80GB HBM3": "h100", r"\bA100.*80GB": "a100_80g", "RTX 4090$": "rtx4090",
           "RTX 5090$": "rtx5090", r"\bA100.*40GB": "a100_40g", r"\bL40S$": "l40s", r"\bL4$": "l4",
           "RTX 3090$": "rtx3090", "RTX A6000$": "a6000", "RTX PRO 6000 Blackwell": "rtx_pro_6000"}  # by their names
GIB = 2**30
# Host memory that no machine with such a GPU has less of, and what is left for all else when a model takes the rest.
LEAST_HOST_GIB, SPARE_HOST_GIB = 64, 8
# What libraries say of a step that fails, and where: kernels then end one after the other.
DIAGNOSTICS = {"CUDA_LAUNCH_BLOCKING": "1", "CUDNN_LOGLEVEL_DBG": "1", "CUBLASLT_LOG_LEVEL": "1"}
# Large enough that a GPU is busy and its transfers count.
LARGE = ["base_emb_dim=2048", "base_num_decoder_layers=8", "base_num_query_heads=16", "base_num_kv_heads=16",
         "head_dim=128", "base_mlp_dim=5632", "vocab_size=32000", "max_target_length=4096"]
SMOKE_STEPS = [("cuda", "none"), ("cuda", "minimal_offloaded"), ("cuda_composed", "none")]
SMOKE = ["base_emb_dim=512", "base_num_decoder_layers=3", "base_num_query_heads=4", "base_num_kv_heads=2",
         "head_dim=128", "base_mlp_dim=1024", "vocab_size=32000", "max_target_length=4096",
         "per_device_batch_size=1"]
TINY = ["base_emb_dim=64", "base_num_decoder_layers=2", "base_num_query_heads=4", "base_num_kv_heads=2",
        "head_dim=16", "base_mlp_dim=96", "vocab_size=256", "max_target_length=32", "per_device_batch_size=2"]
TINY_TOWER = ["image_size_for_vit=28", "patch_size_for_vit=14", "hidden_size_for_vit=32", "num_hidden_layers_for_vit=2",
              "num_attention_heads_for_vit=2", "intermediate_size_for_vit=64", "image_token_id=255"]
TINY_MIXTURE = ["num_experts=8", "num_experts_per_tok=2", "base_moe_mlp_dim=48"]
TINY_PRODUCTS = ["--rows", "3,70", "--experts", 4, "--width", 64, "--inner", 32, "--dense", 64, "--rounds", 1]
# Of those that would look for the rate of products, which takes a GPU that is emulated long.
TINY_STEPS = [*TINY, "peak_tflops_per_device=1"]
DRY_PROFILE = """\
device_bytes: 8e9
host_bytes: 8e9
peak_flops_per_second.f32: 1e11
peak_flops_per_second.bf16: 1e11
flops_per_second.matmul: 1e11
flops_per_second.attention: 1e10
bytes_per_second.memory: 1e10
bytes_per_second.host.memory: 1e10
flops_per_second.host.memory: 1e10
launch_seconds: 1e-6
link_to_device: 1e10
link_to_host: 1e10
"""  # of no machine


def cpu_has_bfloat16():
    """Whether oneDNN, and so a run on the CPU, multiplies it."""
    return re.search(r"\bavx512bw\b", pathlib.Path("/proc/cpuinfo").read_text()) is not None


def compute_sanitizer():
    return shutil.which("compute-sanitizer", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")


class Parts(TimedCommands):
    # In order of worth: seconds at most, and how many must be left to begin. What was never measured comes before what is
    # known of other cards; what is compared is measured one after the other, and what is wrong shows before what is slow.
    BOXES = {"device": (100, 10), "smoke": (300, 20), "tests": (300, 60), "adapters": (300, 90), "grouped": (240, 60), "images": (300, 100),
             "steps": (240, 60), "peer": (330, 100), "measure": (200, 60), "steps_13b": (240, 60), "planner": (100, 30),
             "whole": (330, 100), "losses": (140, 40), "kernels": (120, 45), "overlap": (180, 100), "whole_peer": (400, 120),
             "transfers": (60, 25), "trace": (60, 20), "sanitizer": (130, 60)}

    def __init__(self, logs, build, build_id, runs, is_dry_run, launcher, again, seconds, environment):
        """`runs` is a folder for what nobody reads again; a dry run is on the CPU, or where the launcher, which begins
        commands of the build, emulates a GPU; `again`: what was recorded before counts for nothing."""
        super().__init__(seconds, environment)
        self.logs, self.build, self.build_id, self.runs, self.is_dry_run = logs, build, build_id, runs, is_dry_run
        self.launcher, self.remat = launcher, again
        self.on_cpu = is_dry_run and not launcher
        self.dtype = "float32" if self.on_cpu and not cpu_has_bfloat16() else "bfloat16"
        self.torch_device = "cpu" if is_dry_run else "cuda"

    def run(self, limit, program, *arguments, **options):
        if self.build in pathlib.Path(program).parents:
            options.setdefault("launcher", self.launcher)
        return super().run(limit, program, *arguments, **options)

    def program(self, name):
        return self.build / "bin" / name

    def json(self, name):
        return self.logs / f"{name}.json"

    def record(self, name, limit, *command, of=None):
        """Runs what leaves JSON under that name, unless `of`, which is this build where nothing else is given, has, and says
        whether it did; what is cut takes no place of what is complete."""
        complete = read_json(self.json("complete")) or {}
        mark = of or f"{self.build_id} {self.backend}"
        if complete.get(name) == mark and self.json(name).exists() and not self.remat:
            self.say(f"--- {name}: measured before")
            return False
        self.say(f"--- {name}")
        draft = self.runs / f"{name}.json"
        is_complete = False
        try:
            self.run(limit, *command, "--json", draft)
            is_complete = True
        finally:
            if draft.exists() and (is_complete or not self.json(name).exists() or complete.get(name) != mark):
                shutil.move(draft, self.json(name))
                write_json(self.json("complete"), complete | {name: mark if is_complete else "cut"})
                card = (read_json(self.json("device")) or {}).get("card")
                write_json(self.json("cards"), (read_json(self.json("cards")) or {}) | {name: card})
        return True

    @property
    def backend(self):
        """That trains on this GPU, or cuda where nobody looked."""
        return (read_json(self.json("smoke")) or {}).get("backend", "cpu" if self.on_cpu else "cuda")

    def train(self, limit, name, *settings, **options):
        self.run(limit, self.program("train"), "--config", "quickstart.yml", "dataset_type=synthetic",
                 "eval_dataset_path=", "tokenizer_path=", "sample_tokens=0", "peak_tflops_per_device=1", "enable_checkpointing=false",
                 f"base_output_directory={self.runs}", f"run_name={name}", *settings,
                 is_shown=lambda line: not re.match(r"MFU|run directory| +config\.yml|completed step: [0-3],", line), **options)

    def profile(self):
        """This device's, measured or, as long as it is not, as it comes with Longshore."""
        measured = self.logs / "measured.yml"
        return str(measured) if measured.exists() else (read_json(self.json("device")) or {}).get("profile")

    @staticmethod
    def roomy_gib(profile):
        """Of the device's memory, what leaves some for what libraries load on their way."""
        path = pathlib.Path(profile) if "/" in profile else ROOT / "configs" / "hardware" / f"{profile}.yml"
        values = dict(re.findall(r"^(device_bytes|device_reserved_bytes): (\S+)", path.read_text(), re.M))
        return (float(values["device_bytes"]) - float(values.get("device_reserved_bytes", 0))) / 2**30 - 0.5

    # --- the parts

    def device(self):
        found = {"peak_flops_per_second": 1e12}
        if not self.is_dry_run:
            # The driver may be loaded by this.
            query = ("name,memory.total,driver_version,uuid,memory.used,pcie.link.gen.max,pcie.link.width.max,power.limit,"
                     "clocks.max.sm")
            lines = self.run(60, "nvidia-smi", "--format=csv", f"--query-gpu={query}")
            found = dict(zip(("name", "memory", "driver", "card", "used"), lines[1].split(", ")))
            used = re.match(r"\d+", found.pop("used"))
            if used and int(used[0]) > OTHERS_MIB:
                self.say(f"{used[0]} MiB of its memory are in use by others: plans do not know of them, and what is "
                         "said below of memory in use includes them")
            memory = re.match(r"\d+", found["memory"])  # a GPU that shares the host's has none
            found["memory_mib"] = int(memory[0]) if memory else 0
            found["profile"] = next((name for pattern, name in SHIPPED.items() if re.search(pattern, found["name"])), None)
            if found["profile"]:
                text = (ROOT / "configs" / "hardware" / f"{found['profile']}.yml").read_text()
                found["peak_flops_per_second"] = float(re.search(r"^peak_flops_per_second.bf16: (\S+)", text, re.M)[1])
        write_json(self.json("device"), found)
        self.say(f"{os.cpu_count()} cores, host memory {bytes_of('MemTotal') / GIB:.1f} GiB, "
                 f"{bytes_of('MemAvailable') / GIB:.1f} GiB of it available")
        if bytes_of("MemTotal") < LEAST_HOST_GIB * GIB and not self.is_dry_run:
            try:
                self.run(40, sys.executable, ROOT / "scripts/gpu/touch_memory.py")
            except Failure as failure:  # it is slow, or less may be used than there is
                self.say(str(failure))
        commit = self.build / "commit"
        self.say(f"build {self.build_id} in {self.build}" +
                 (f", of commit {commit.read_text().strip()}" if commit.exists() else ""))
        libraries = self.run(20, "ldd", self.program("train"), is_shown=re.compile("torch|cudart|not found").search)
        if any("not found" in line for line in libraries):
            raise Failure("libraries are missing")
        self.python_has_torch()

    def python_has_torch(self, limit=40):
        try:
            self.run(limit, sys.executable, "-c", "import torch; print('torch', torch.__version__, torch.__path__[0])")
            return True
        except Failure:
            self.say(f"{sys.executable} has no torch")
            return False

    def smoke(self):
        """Whether anything trains; without our custom kernels where it does not with them."""
        trains = {}  # by backend and policy; unknown, where time runs out
        try:
            self.all_of(*(functools.partial(self.smoke_step, trains, *step) for step in SMOKE_STEPS))
        finally:
            is_broken = trains.get("cuda none") is False and trains.get("cuda_composed none")
            backend = "cpu" if self.on_cpu else "cuda_composed" if is_broken else "cuda"
            write_json(self.json("smoke"), {"trains": trains, "backend": backend})
            if is_broken:
                self.say("cuda_composed is used from here on")

    def smoke_step(self, trains, backend, policy):
        self.say(f"--- {backend} {policy}")
        settings = [f"backend={'cpu' if self.on_cpu else backend}", f"remat_policy={policy}", "steps=2",
                    f"dtype={self.dtype}", *(TINY if self.is_dry_run else SMOKE)]
        try:
            self.train(90, f"smoke-{backend}-{policy}", *settings)
            trains[f"{backend} {policy}"] = True
        except OutOfTime:
            raise
        except Failure:
            trains[f"{backend} {policy}"] = False
            if backend == "cuda" and not self.is_dry_run:
                self.diagnose(policy, settings)
            raise

    def diagnose(self, policy, settings):
        """Says more of a step that fails: which kernel, and what memory it touched."""
        settings = [*settings, "base_num_decoder_layers=1"]
        checker = compute_sanitizer()
        for name, launcher, variables in [("libraries' own words", [], DIAGNOSTICS)] + (
                [("memcheck", [checker, "--tool", "memcheck", "--launch-timeout", 60], {})] if checker else []):
            self.say(f"--- again, with {name}")
            try:
                self.train(60, f"diagnosis-{policy}-{name.split()[0]}", *settings, launcher=launcher, variables=variables)
                self.say("trains so, with one layer")
            except Failure as failure:
                self.say(str(failure))

    def tests(self):
        """Ops beside ATen's, and models beside transformers."""
        shards = [(self.build / "tests" / name, shard, count) for name, count in TESTS.items() for shard in range(count)
                  if (self.build / "tests" / name).exists()]
        if not shards and not self.on_cpu:
            raise Failure(f"found none of {', '.join(TESTS)} in {self.build / 'tests'}")
        cores = self.share_of_cores(len(shards))
        self.at_once(len(shards), *(functools.partial(self.test, *shard, cores) for shard in shards))

    def test(self, program, shard, count, cores):
        report = self.runs / f"{program.name}_{shard}.json"
        variables = cores | {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(shard)}
        try:
            self.run(180, program, "--gtest_brief=1", f"--gtest_output=json:{report}", variables=variables)
        finally:
            of_suites = [suite["testsuite"] for suite in (read_json(report) or {}).get("testsuites", [])]
            tests = [test for tests in of_suites for test in tests]
            skipped = [f"{test['classname']}.{test['name']}" for test in tests if test["result"] == "SKIPPED"]
            seconds = sorted(((float(test["time"].rstrip("s")), test["name"]) for test in tests), reverse=True)
            self.say(f"{program.name}, part {shard + 1} of {count}: {len(tests)} tests, {len(skipped)} skipped; longest: "
                     f"{', '.join(f'{name} {taken:.0f} s' for taken, name in seconds[:3])}")
        # Of several GPUs, there may be one.
        skipped = [] if self.is_dry_run else [name for name in skipped if "OnAllGpus" not in name]
        if skipped or not tests:
            raise Failure("found tests that were skipped: " + ", ".join(skipped) if skipped else "found no tests")

    def measure(self):
        """This device's rates."""
        measured = self.logs / "measured.yml"
        if measured.exists() and not self.remat:
            self.say("measured before")
        elif self.is_dry_run:
            write_text(measured, f"target: {'cpu' if self.on_cpu else 'cuda'}\n{DRY_PROFILE}")
        else:
            self.run(200, self.program("plan"), "--measure-to", measured)

    def steps(self):
        if not self.profile():
            self.measure()
        self.all_of(*(functools.partial(self.step_times, name) for name in STEPS))

    def steps_13b(self):
        self.all_of(*(functools.partial(self.step_times, name) for name in STEPS_OF_13B))

    def adapters(self):
        self.all_of(*(functools.partial(self.step_times, name) for name in STEPS_OF_ADAPTERS))

    @property
    def tiny_steps(self):
        return [*TINY_STEPS, f"dtype={self.dtype}"]

    def step_settings(self, name):
        settings = ALL_STEPS[name][2]
        if self.is_dry_run:
            return [*self.tiny_steps, *(each for each in settings if each.split("=")[0] in KEPT_WHEN_TINY)]
        return settings if name in STEPS_OF_ADAPTERS else LAYERS + settings

    def step_times(self, name):
        model, policies, _ = ALL_STEPS[name]
        profile = self.profile()
        if not profile:
            policies = policies.removesuffix("auto").removesuffix(",")
            if not policies:
                raise Failure(f"{name}: no profile that auto could choose by")
        # One turn of each policy, for a turn fills the model anew.
        if self.record(f"steps_{name}", 120, self.program("compare"), "--config", f"{model}.yml", "--steps", 3,
                       "--rounds", 1, "--policies", policies, f"backend={self.backend}",
                       *(["--hardware", profile] if profile else []), *self.step_settings(name)):
            profiles = read_json(self.json("profiles")) or {}
            write_json(self.json("profiles"), profiles | {name: pathlib.Path(profile).stem if profile else None})

    def planner(self):
        """What plans say of those steps."""
        measured = self.logs / "measured.yml"
        shipped = (read_json(self.json("device")) or {}).get("profile")
        profiles = {"measured": measured if measured.exists() else None, shipped: shipped}
        tasks = [functools.partial(self.plan_steps, name, profile_name, profile)
                 for name in ALL_STEPS if self.json(f"steps_{name}").exists()
                 for profile_name, profile in profiles.items() if profile]
        end = self.end
        self.end -= 10  # for what joins them
        try:
            self.all_of(*tasks)
        finally:
            self.end = end
            self.run(30, sys.executable, ROOT / "tests/bench/plans_beside_steps.py", self.logs, "--json",
                     self.json("planner"))

    def plan_steps(self, name, profile_name, profile):
        model, policies, _ = ALL_STEPS[name]
        if (read_json(self.json("profiles")) or {}).get(name) != profile_name:
            # auto chooses by a profile: only that of the steps chooses as they did.
            policies = policies.removesuffix("auto").removesuffix(",")
        if not policies:
            return
        self.run(30, self.program("plan"), "--config", f"{model}.yml", "--hardware", profile, "--policies", policies,
                 "--json", self.json(f"plans_{name}.{profile_name}"), *self.step_settings(name),
                 is_shown=lambda line: False)

    def whole(self):
        """Models as they are, with all layers."""
        self.all_of(*(functools.partial(self.whole_step, f"whole_{model}", model, *WHOLE[model]) for model in WHOLE))

    def whole_step(self, name, model, settings, options=()):
        self.compare_whole(name, model, "auto", self.tiny_steps if self.is_dry_run else settings, options)

    def compare_whole(self, name, model, policies, settings, options=()):
        profile = self.profile()
        if not profile:
            raise Failure("no profile that auto could choose by")
        settings = [*settings,
                    f"device_memory_limit={self.roomy_gib(profile):.2f}",
                    f"host_memory_limit={max(bytes_of('MemAvailable') / GIB - SPARE_HOST_GIB, 1):.2f}"]
        self.record(name, 200, self.program("compare"), "--config", f"{model}.yml", "--steps", 2, "--rounds", 1, "--policies",
                    policies, "--hardware", profile, f"backend={self.backend}", *options, *settings)

    def grouped(self):
        """Products of experts' rows, and steps of a mixture of experts."""
        self.all_of(self.grouped_products, self.mixture_steps)

    def grouped_products(self):
        if self.on_cpu:
            self.say("--- grouped: left out, for there is no GPU")
            return
        self.record("grouped", 120, self.program("bench_grouped"), *(TINY_PRODUCTS if self.is_dry_run else []))

    def mixture_steps(self):
        model, policies, settings = MIXTURE
        self.record(f"mixture_{model}", 120, self.program("compare"), "--config", "llama3_8b.yml", f"model_name={model}",
                    "--steps", 3, "--rounds", 1, "--policies", policies, f"backend={self.backend}",
                    *([*self.tiny_steps, *TINY_MIXTURE] if self.is_dry_run else settings))

    def images(self):
        """Towers and decoders, with synthetic pixels."""
        if not self.profile():
            self.measure()
        self.all_of(*(functools.partial(self.image_step, model) for model in IMAGES))

    def image_step(self, model):
        settings = [*self.tiny_steps, *TINY_TOWER] if self.is_dry_run else [
            f"per_device_batch_size={IMAGES[model]}", f"dtype={self.dtype}"]
        self.compare_whole(f"images_{model}", model, IMAGE_POLICIES, ["load_parameters_path=", *settings])

    def peer(self):
        """torch.compile on the same."""
        if self.has_peer():
            self.all_of(*(functools.partial(self.peer_steps, model) for model in PEER_CASES))

    def whole_peer(self):
        """Models as they are under torch.compile, and with the same states here."""
        if not self.has_large_memory() and not self.is_dry_run:
            self.say(f"found no more than {LARGE_MEMORY_MIB} MiB of device memory: the peer's states do not fit")
            return
        if self.has_peer():
            self.all_of(*(functools.partial(step, model) for model in WHOLE_PEER
                          for step in (self.whole_peer_steps, self.whole_step_beside_peer)))

    def whole_step_beside_peer(self, model):
        self.whole_step(f"whole_float32_{model}", model, [f"per_device_batch_size={WHOLE_PEER[model][0]}",
                                                          "deterministic=false"], ["auto_micro_batch=true"])

    def whole_peer_steps(self, model):
        rows, cases = WHOLE_PEER[model]
        settings = self.tiny_steps if self.is_dry_run else [
            "max_target_length=" + self.key_of(model, "max_target_length")]
        self.run_peer(f"peer_whole_{model}", model, settings, rows, cases, 2)

    @staticmethod
    def key_of(model, key):
        return re.search(rf"^{key}: (\S+)", (ROOT / "configs" / f"{model}.yml").read_text(), re.M)[1]

    def has_peer(self):
        """Whether python3 has torch and what its Triton compiles with; where it must have, a failure."""
        if not self.python_has_torch(120):
            if self.is_dry_run:
                return False
            raise Failure("nothing to compare with")
        if not any(map(shutil.which, filter(None, [os.environ.get("CC"), "gcc", "clang"]))):
            raise Failure("found neither gcc nor clang, nor what CC names: torch.compile wants one")
        header = pathlib.Path(sysconfig.get_path("include")) / "Python.h"
        if not header.exists():
            raise Failure(f"found no {header}: torch.compile wants Python's headers")
        return True

    def peer_steps(self, model):
        cases = PEER_CASES[model]["large" if self.has_large_memory() else "small"]
        self.run_peer(f"peer_{model}", model, self.step_settings(model), PEER_ROWS, cases, 4)

    def has_large_memory(self):
        return (read_json(self.json("device")) or {}).get("memory_mib", 0) > LARGE_MEMORY_MIB

    def run_peer(self, name, model, settings, rows, cases, steps):
        settings = [word for word in settings if not word.startswith(NOT_ITS)]
        sizes = ["--rows", 2, "--cases", "none:2,half:1"] if self.is_dry_run else ["--rows", rows, "--cases", cases]
        self.record(name, 170, sys.executable, ROOT / "tests/bench/compiled_peer.py",
                    ROOT / f"configs/models/{model}.yml", *settings, *sizes, "--device", self.torch_device, "--steps", steps,
                    of=f"torch.compile {' '.join(map(str, sizes))}")

    def kernels(self):
        self.record("kernels", 120, self.program("bench_kernels"))

    def losses(self):
        """Of five small steps: the same bits under every policy, and close to other kernels' and the CPU's."""
        begun = []
        try:
            self.at_once(LOSS_RUNS, *(functools.partial(self.loss_run, run, begun) for run in gpu_losses.RUNS))
        finally:
            rows = gpu_losses.compare(self.runs, [run for run in gpu_losses.RUNS if run in begun])
            write_json(self.json("losses"), rows)
            self.say(gpu_losses.table(rows))
        if bad := sum(not row["good"] for row in rows):
            raise Failure(f"{bad} of {len(rows)} failed")

    def loss_run(self, run, begun):
        backend = {"own": self.backend, "composed": "cuda_composed", "cpu": "cpu"}[run.kernels]
        if run.dtype == "bfloat16" and (backend == "cpu" or self.on_cpu) and not cpu_has_bfloat16():
            self.say(f"--- {run.folder}: left out, for this processor does not multiply bfloat16")
            return
        self.say(f"--- {run.folder}: {' '.join(run.settings)}")
        begun.append(run)
        try:
            self.train(60, run.folder, f"backend={'cpu' if self.on_cpu else backend}", f"dtype={run.dtype}", "steps=5",
                       *run.settings, *(TINY if self.is_dry_run else []), variables=self.share_of_cores(LOSS_RUNS))
        except OutOfTime:
            begun.remove(run)
            raise

    def transfers(self):
        lines = self.run(60, self.program("bench_transfers"))
        if not self.on_cpu and not any(line.startswith("backend: cuda") for line in lines):
            raise Failure("found the CPU, expected a GPU")

    def large(self, batch, micro_batches):
        size = TINY if self.is_dry_run else LARGE + [f"per_device_batch_size={batch}",
                                                     f"gradient_accumulation_steps={micro_batches}"]
        return [*size, f"dtype={self.dtype}", f"backend={self.backend}"]

    def overlap(self):
        profile = self.profile()
        self.record("overlap", 180, self.program("bench_overlap"), "--rounds", 3,
                    *(["--hardware", profile] if profile else []), "--config", "quickstart.yml",
                    "dataset_type=synthetic", "--policies", "qkv_proj_offloaded", "remat_policy=none",
                    *self.large(8, 4))

    def trace(self):
        self.train(60, "trace", *self.large(4, 1), "remat_policy=minimal_offloaded",
                   "optimizer_memory_host_offload=true", "steps=6", "profiler_steps=2",
                   "skip_first_n_steps_for_profiler=3")
        shutil.copy(self.runs / "trace" / "trace.json", self.logs)

    def sanitizer(self):
        """Where our custom kernels read, write and wait for each other, if compute-sanitizer is there to see it."""
        tool = compute_sanitizer()
        program = self.build / "tests" / "cuda_ops_test"
        if not tool or not program.exists():
            self.say(f"found no {program.name if tool else 'compute-sanitizer'}: nothing was checked")
            return
        self.at_once(3, *(functools.partial(
            self.run, 120, tool, "--tool", check, "--kernel-name", "kernel_substring=run_block", "--error-exitcode", 9,
            "--launch-timeout", 60, program, "--gtest_brief=1", "--gtest_filter=*InFloat32*")
            for check in ("memcheck", "racecheck", "synccheck")))
