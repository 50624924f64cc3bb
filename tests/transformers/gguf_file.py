#!/usr/bin/env python3
"""What convert --to-gguf writes, PyPI's gguf reads as the same model, and llama.cpp runs as such.

usage: gguf_file.py CONVERT GOLDENS [CASE...]

For each case of GOLDENS/models of a family that llama.cpp knows: every tensor has the name that
gguf's own table gives it and is equal to the source's to the bit, with rows in llama.cpp's order, 1
added to the norms that expect it, and experts stacked; so it is rounded to bfloat16, float16 and
Q8_0, as gguf quantizes. The keys say the config's numbers. Adapters alone likewise.

Where llama-cpp-python is installed (in .deps/transformers: python -m pip install llama-cpp-python,
which compiles it), also: llama.cpp gives the golden logits, with an adapter beside the model those
with the adapter, and each golden tokenizer's ids.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unicodedata

os.environ["HF_HUB_OFFLINE"] = "1"

try:
    import gguf
except ImportError:
    print("skipped: no gguf; scripts/test --transformers sets it up")
    sys.exit(77)
import numpy
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

Q8_0, F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32
DTYPES = {"float32": F32, "float16": gguf.GGMLQuantizationType.F16,
          "bfloat16": gguf.GGMLQuantizationType.BF16, "q8_0": Q8_0}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "ministral3": "mistral3", "qwen2": "qwen2",
                 "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "gemma": "gemma", "gemma2": "gemma2",
                 "gemma3_text": "gemma3", "gemma4_text": "gemma4", "olmo2": "olmo2", "olmo3": "olmo2", "phi3": "phi3",
                 "glm4": "glm4", "granite": "granite", "smollm3": "smollm3", "gpt_oss": "gpt-oss",
                 "llama4_text": "llama4"}
TURNED = {"llama", "mistral3", "granite", "smollm3"}
ADDS_ONE = {"gemma", "gemma2", "gemma3"}
# Of toys that are what llama.cpp cannot run: what is said, and what of config.json makes them what it can.
OTHERWISE = {
    "qwen3_moe": ("mlp_only_layers", None),
    "gemma4_e2b": ("num_kv_shared_layers", None),
    "smollm3": ("RoPE", {"no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0]}),
    "llama4_text": ("attention_chunk_size", {"attention_chunk_size": 8192}),
    "lora_llama4": ("RoPE", {"attention_chunk_size": 8192, "no_rope_layers": [1, 1],
                             "layer_types": ["chunked_attention", "chunked_attention"]}),
}
# llama.cpp ends where no layer of a Llama 4 is without RoPE, as in a toy of two layers; and the logits of the other are
# of a base that was quantized as it was loaded.
NOT_RUN = {"lora_llama4", "qlora_llama"}


def tolerance_of(config):
    """How far llama.cpp's logits may be off, by the largest."""
    if config["model_type"].startswith("gemma"):
        return 5e-3  # its GELU is a table of float16
    return 1e-4



def text_config(folder):
    config = json.loads((folder / "config.json").read_text())
    return config.get("text_config", config)


def refusal(command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, f"{command}: exit {done.returncode}"
    return done.stderr


def read(path):
    """The tensors, the types of their numbers and the keys of a file."""
    file = gguf.GGUFReader(path)
    tensors = {}
    for tensor in file.tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        tensors[tensor.name] = (tensor.tensor_type, numpy.asarray(tensor.data), shape)
    return tensors, {name: field.contents() for name, field in file.fields.items()}


# --- what is expected


def turned(weight, heads):
    """Halves of each head's rows become neighbours."""
    rows = weight.shape[0] // heads
    return weight.reshape(heads, 2, rows // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def parts_of_experts(name, tensor, takes_turns):
    """Gate and up of all experts, or down, [..,out,in] and biases."""
    is_bias = name.endswith("_bias")
    stem = name.removesuffix("_bias")
    whole = tensor if is_bias or not takes_turns[1] else tensor.swapaxes(-1, -2)
    axis = -1 if is_bias else -2
    if "gate_up_proj" not in name:
        return {stem + (".bias" if is_bias else ".weight"): whole}
    half = whole.shape[axis] // 2
    pick = (lambda k: numpy.take(whole, range(k, 2 * half, 2), axis)) if takes_turns[0] else \
        (lambda k: numpy.take(whole, range(k * half, (k + 1) * half), axis))
    return {stem.replace("gate_up_proj", part) + (".bias" if is_bias else ".weight"): pick(k)
            for k, part in enumerate(("gate_proj", "up_proj"))}


def query_factor(config, architecture):
    scalar = config.get("query_pre_attn_scalar")
    return (config["head_dim"] / scalar) ** 0.5 if scalar and architecture in ("gemma2", "gemma3") else 1.0


def expected_tensors(config, source):
    """The tensors of llama.cpp, float32, by gguf's table of names."""
    architecture = ARCHITECTURES[config["model_type"]]
    [arch] = [key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture]
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    tensors, experts = {}, {}

    def add(name, tensor):
        if name.endswith((".sinks", ".layer_scalar")):
            name += ".weight"
        if architecture in ADDS_ONE and name.endswith("norm.weight"):
            tensor = tensor + numpy.float32(1)
        scaled = "q_norm.weight" if architecture == "gemma3" else "q_proj.weight"
        if name.endswith(scaled):
            tensor = tensor * numpy.float32(query_factor(config, architecture))
        if architecture in TURNED:
            heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
            for part, count in heads.items():
                if name.endswith((part + ".weight", part + ".bias")):
                    tensor = turned(tensor, count)
        if name.endswith("router.scale"):
            there = names.get_name(name.replace("router.scale", "router.proj")) + ".scale"
        elif name.endswith("per_expert_scale"):
            there = names.get_name(name.replace("router.per_expert_scale", "experts.down_proj")) + ".scale"
        elif architecture == "gemma4" and ".experts." in name:  # of which gguf knows gate and up together alone
            parts = name.split(".")
            there = f"blk.{parts[2]}.ffn_{parts[4].removesuffix('_proj')}_exps.weight"
        else:
            there = names.get_name(name, (".weight", ".bias"))
        assert there, f"gguf has no name for {name}"
        tensors[there] = tensor

    for name, tensor in source.items():
        tensor = tensor.float().numpy()
        parts = name.split(".")
        number = next((i for i, part in enumerate(parts) if part == "experts" and parts[i + 1].isdigit()), None)
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        if number is not None:
            which = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}.get(parts[-2], parts[-2])
            stem = ".".join(parts[:number] + ["experts", which, "weight"]).replace("block_sparse_moe", "mlp")
            experts.setdefault(stem, {})[int(parts[number + 1])] = tensor
        elif "experts." in name and "shared" not in name:
            is_plain = config["model_type"] in ("gpt_oss", "llama4_text")
            for part, weight in parts_of_experts(name, tensor, (config["model_type"] == "gpt_oss", is_plain)).items():
                add(part, weight)
        else:
            add(name, tensor)
    for stem, of_all in experts.items():
        add(stem, numpy.stack([of_all[i] for i in range(len(of_all))]))
    return tensors


def rope_factors(config):
    rope = config.get("rope_parameters", {})
    rope = rope.get("full_attention", rope)
    if rope.get("rope_type") == "proportional":
        dim = config["per_layer_config"][max(config["per_layer_config"])]["head_dim"]
        turned_pairs = int(dim * rope["partial_rotary_factor"] / 2)
        return numpy.array([1.0] * turned_pairs + [1e30] * (dim // 2 - turned_pairs), numpy.float32)
    if rope.get("rope_type") != "llama3":
        return None
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    wavelengths = 2 * numpy.pi * rope["rope_theta"] ** (numpy.arange(0, dim, 2) / dim)
    length, low, high = (rope[key] for key in ("original_max_position_embeddings", "low_freq_factor",
                                               "high_freq_factor"))
    smooth = numpy.clip((length / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(numpy.float32)


def expected_type(name, shape, wanted):
    if len(shape) == 1 or "norm" in name or "ffn_gate_inp" in name or not name.endswith(".weight"):
        return F32
    return DTYPES["float16"] if wanted == Q8_0 and shape[-1] % 32 else wanted


def numbers(tensor, kind):
    if kind == DTYPES["bfloat16"]:
        return torch.tensor(numpy.ascontiguousarray(tensor)).bfloat16().view(torch.uint8).numpy()
    return gguf.quants.quantize(numpy.ascontiguousarray(tensor), kind)


def check_tensors(path, expected, dtype, what):
    tensors, keys = read(path)
    assert tensors.keys() == expected.keys(), f"{what}: {sorted(tensors.keys() ^ expected.keys())}"
    for name, (kind, data, shape) in tensors.items():
        there = expected[name]
        assert shape == there.shape, f"{what}: {name} is {shape}, expected {there.shape}"
        assert kind == expected_type(name, shape, DTYPES[dtype]), f"{what}: {name} is {kind.name}"
        same = numbers(there, kind)
        assert data.tobytes() == same.tobytes(), f"{what}: {name} differs"
    return keys


def check_keys(keys, config, what):
    prefix = ARCHITECTURES[config["model_type"]]
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    windows = prefix not in ("llama", "phi3") or not config.get("sliding_window")
    said = {"context_length": config["max_position_embeddings"] if windows else config["sliding_window"],
            "block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
            "vocab_size": config["vocab_size"], "attention.head_count": config["num_attention_heads"],
            "rope.freq_base": rope["rope_theta"], "attention.layer_norm_rms_epsilon": config["rms_norm_eps"]}
    if "per_layer_config" not in config:
        said["attention.head_count_kv"] = config["num_key_value_heads"]
        said["attention.key_length"] = (config.get("head_dim")
                                        or config["hidden_size"] // config["num_attention_heads"])
    if rope["rope_type"] in ("linear", "yarn"):
        said |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": rope["factor"]}
    if config["model_type"] in ("gemma2", "gemma3_text", "gemma4_text", "olmo3", "gpt_oss"):
        said |= {"attention.sliding_window": config["sliding_window"],
                 "attention.sliding_window_pattern": [kind != "full_attention" for kind in config["layer_types"]]}
    for key, name in {"attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping":
                      "final_logit_softcapping", "num_local_experts": "expert_count", "num_experts_per_tok":
                      "expert_used_count", "attention_multiplier": "attention.scale", "logits_scaling":
                      "logit_scale", "residual_multiplier": "residual_scale", "embedding_multiplier":
                      "embedding_scale"}.items():
        if config.get(key):
            said[name] = config[key]
    for key, value in said.items():
        found = keys[f"{prefix}.{key}"]
        close = found == value or (isinstance(value, float) and abs(found - value) <= 1e-6 * abs(value))
        assert close, f"{what}: {key} is {found}, expected {value}"
    assert keys["general.architecture"] == prefix and keys["tokenizer.ggml.model"] == "none", what


# --- llama.cpp


class Model:
    def __init__(self, path, **options):
        self.llama = llama_cpp.Llama(str(path), n_ctx=512, n_batch=512, logits_all=True, verbose=False, n_threads=1,
                                     type_k=0, type_v=0, flash_attn=False, swa_full=True, **options)

    def logits(self, tokens):
        self.llama.reset()
        self.llama.eval(tokens)
        return numpy.array(self.llama.scores[: len(tokens)])


def check_logits(path, tokens, expected, what, tolerance, places=None, **options):
    found = Model(path, **options).logits(tokens)[:places]
    difference = numpy.abs(found - expected[:places]).max() / numpy.abs(expected).max()
    assert difference <= tolerance, f"{what}: llama.cpp's logits differ by {difference:.2g} of the largest"
    return f"llama.cpp's logits within {difference:.1g}"


def transformers_logits(folder, tokens):
    import transformers
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager",
                                                              experts_implementation="eager").eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens])).logits[0].numpy()


def places_of(config):
    """Tokens that are seen whole also where llama.cpp knows no windows."""
    return config.get("sliding_window") if config["model_type"] in ("mistral", "phi3", "mixtral") else None


# --- cases


def source_of(case, folder, changes):
    folder.mkdir()
    for file in case.glob("model*"):
        shutil.copy(file, folder)
    config = json.loads((case / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    return tensors


def test_model(case, convert, work):
    said, changes = OTHERWISE.get(case.name, (None, {}))
    if said:
        source = source_of(case, work / "refused", {})
        message = refusal([convert, "--from", source, "--to-gguf", work / "a.gguf"])
        assert said in message and not (work / "a.gguf").exists(), message
        if changes is None:
            return "refused"
    source = source_of(case, work / "source", changes)
    config = text_config(source)
    expected = expected_tensors(config, tensors_of(source))
    if (factors := rope_factors(config)) is not None:
        expected["rope_freqs.weight"] = factors
    for dtype in DTYPES:
        path = work / f"{dtype}.gguf"
        subprocess.run([convert, "--from", source, "--to-gguf", path, "--dtype", dtype], check=True,
                       stdout=subprocess.DEVNULL)
        keys = check_tensors(path, expected, dtype, f"{case.name}: {dtype}")
        check_keys(keys, config, case.name)
    if not llama_cpp or case.name in NOT_RUN:
        return "equal"
    file = case / "golden.safetensors"
    golden = load_file(file) if file.exists() else {}
    name = "base_logits" if "base_logits" in golden else "logits"
    if name not in golden or "position_ids" in golden:  # of optimizers, preferences and packed rows
        return "equal"
    tokens = golden["input_ids"][0].tolist()
    logits = transformers_logits(source, tokens) if changes else golden[name][0].numpy()
    return "equal; " + check_logits(work / "float32.gguf", tokens, logits, case.name,
                                    tolerance_of(config), places_of(config))


def test_adapter(case, convert, work):
    """The adapter alone beside the model is the model with the adapter merged into it."""
    changes = OTHERWISE.get(case.name, (None, {}))[1]
    source = source_of(case, work / "adapted", changes)
    config = text_config(source)
    options = ["--from", source, "--adapter", case / "adapter"]
    alone, merged, base = (work / f"{name}.gguf" for name in ("alone", "merged", "base"))
    command = [convert, *options, "--adapter-only", "--to-gguf", alone]
    if json.loads((case / "adapter/adapter_config.json").read_text()).get("use_dora"):
        assert "no adapter file of llama.cpp can hold" in refusal(command)
        return "refused"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([convert, *options, "--to-gguf", merged], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([convert, "--from", source, "--to-gguf", base], check=True, stdout=subprocess.DEVNULL)
    tensors, keys = read(alone)
    assert keys["general.type"] == "adapter" and keys["adapter.type"] == "lora"
    before, after = (read(path)[0] for path in (base, merged))
    for name in before:
        change = after[name][1].astype(numpy.float64) - before[name][1]
        if name + ".lora_a" not in tensors:
            assert not change.any(), f"{case.name}: {name}"
            continue
        a, b = (tensors[f"{name}.lora_{part}"][1].astype(numpy.float64) for part in "ab")
        product = keys["adapter.lora.alpha"] / b.shape[-1] * (b @ a)
        assert numpy.abs(change - product).max() <= 1e-5 * numpy.abs(product).max() + 1e-7, f"{case.name}: {name}"
    assert len(tensors) == 2 * sum(name + ".lora_a" in tensors for name in before)
    if not llama_cpp or case.name in NOT_RUN:
        return "as merged"
    golden = load_file(case / "golden.safetensors")
    tokens = golden["input_ids"][0].tolist()
    logits = golden["logits"][0].numpy()
    if changes:
        logits = Model(merged).logits(tokens)
    return "as merged; " + check_logits(base, tokens, logits, case.name + ": adapter",
                                        tolerance_of(config), places_of(config), lora_path=str(alone))


def small_llama(folder, vocabulary):
    generator = numpy.random.default_rng(1)
    weight = lambda *shape: generator.standard_normal(shape, numpy.float32) * numpy.float32(0.1)
    tensors = {"model.embed_tokens.weight": weight(vocabulary, 32), "model.norm.weight": weight(32)}
    layer = {"self_attn.q_proj": (32, 32), "self_attn.k_proj": (32, 32), "self_attn.v_proj": (32, 32),
             "self_attn.o_proj": (32, 32), "mlp.gate_proj": (32, 32), "mlp.up_proj": (32, 32),
             "mlp.down_proj": (32, 32), "input_layernorm": (32,), "post_attention_layernorm": (32,)}
    tensors |= {f"model.layers.0.{name}.weight": weight(*shape) for name, shape in layer.items()}
    save_file(tensors, folder / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 32,
              "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1, "vocab_size": vocabulary,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
              "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))


def test_tokenizer(tokenizer, convert, work):
    cases = json.loads((tokenizer / "cases.json").read_text())
    small_llama(work, cases["vocab_size"] + 3)
    shutil.copy(tokenizer / cases["file"], work)
    (work / "chat_template.jinja").write_text("{{ messages[0].content }}")
    path = work / "a.gguf"
    subprocess.run([convert, "--from", work, "--to-gguf", path], check=True, stdout=subprocess.DEVNULL)
    keys = read(path)[1]
    assert len(keys["tokenizer.ggml.tokens"]) == cases["vocab_size"] + 3
    assert keys["tokenizer.chat_template"] == "{{ messages[0].content }}"
    if not llama_cpp:
        return f"{len(keys['tokenizer.ggml.tokens'])} tokens"
    if cases["file"] == "tokenizer.json":
        added = json.loads((tokenizer / "tokenizer.json").read_text())["added_tokens"]
    else:  # sentencepiece finds no such token in a text
        types = zip(keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"])
        added = [{"content": token, "lstrip": True} for token, kind in types if kind in (2, 3)]
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    count = 0
    for case in cases["cases"]:
        if is_alike(case["text"], added):
            found = model.tokenize(case["text"].encode(), add_bos=False, special=True)
            assert found == case["ids"], f"{tokenizer.name}: {case['text']!r}: {found}, expected {case['ids']}"
            count += 1
    assert count > 100, tokenizer.name
    return f"llama.cpp gives {count} of {len(cases['cases'])} texts the same ids, and others are not compared"


def is_alike(text, added):
    """Whether llama.cpp knows all that makes the text's ids: no normaliser but for spaces, no white space that belongs
    to an added token; and what consists of added spaces it takes for them alone."""
    has_spaces = any(set(token["content"]) == {"\u2581"} for token in added)
    return (text and "\0" not in text and "\u2581" not in text and unicodedata.normalize("NFC", text) == text
            and not (has_spaces and "  " in text)
            and not any(token["content"] in text for token in added if token["lstrip"] or token["rstrip"]))


def main():
    convert, goldens = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    torch.set_num_threads(1)
    if not llama_cpp:
        print("no llama-cpp-python: what llama.cpp makes of the files is not tested")
    only = sys.argv[3:]
    for case in sorted((goldens / "models").iterdir()):
        config = case / "config.json"
        if (only and case.name not in only) or not config.exists() or not list(case.glob("model*")):
            continue
        config = json.loads(config.read_text())
        if "vision_config" in config or "quantization_config" in config:
            continue
        for test in [test_model] + [test_adapter] * ((case / "adapter").exists() and "logits" in load_file(case / "golden.safetensors")):
            with tempfile.TemporaryDirectory() as work:
                print(f"{case.name}: {test(case, convert, pathlib.Path(work))}", flush=True)
    for tokenizer in sorted((goldens / "tokenizers").iterdir()):
        if (only and tokenizer.name not in only) or tokenizer.name == "sp_unigram":
            continue
        with tempfile.TemporaryDirectory() as work:
            print(f"{tokenizer.name}: {test_tokenizer(tokenizer, convert, pathlib.Path(work))}", flush=True)


main()
