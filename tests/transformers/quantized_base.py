"""The model of a folder as transformers and bitsandbytes quantize it while they load it, beside what
frozen_weight_dtype makes of it.

bitsandbytes quantizes and computes in other ways by the device. load() leaves what does not depend on it:
- Models are in training mode. Otherwise processors that multiply bfloat16 compute in that, and int8 also
  quantizes what layers read.
- Matrices have a multiple of 64 columns: its AVX-512 code gives wrong numbers for others. Numbers of each
  are compared with what its codes stand for.
- The codes of double quantization's scales are the nearest, as its CUDA code has them, and the scales' mean is
  exact. Its CPU code looks codes up in a table of 65,536 places, and may have another where a scale lies near
  the border of two; torch's mean is rounded by the order in which it adds.
"""

import importlib.util
import sys

import torch
import transformers
from safetensors.torch import load_file

NF4, DOUBLE, INT8 = "NF4", "NF4, double quantization", "int8"
KEYS = {NF4: ["frozen_weight_dtype=nf4"],
        DOUBLE: ["frozen_weight_dtype=nf4", "frozen_weight_double_quantization=true"],
        INT8: ["frozen_weight_dtype=int8"]}
BLOCK, NESTED_BLOCK = 64, 256
TABLE_STEP = 2 / 65536  # of the CPU code's, from -1 to 1


def require_bitsandbytes():
    if importlib.util.find_spec("bitsandbytes") is None:
        print("skipped: no bitsandbytes in .deps/transformers; scripts/test --transformers sets it up")
        sys.exit(77)


def nearest(values, book):
    """Codes in the book, which ascends, of values relative to their scale; a tie has the lower."""
    return torch.bucketize(values.clamp(-1, 1), (book[:-1] + book[1:]) / 2)


def make_nested_exact(name, state, scales):
    """Returns how many codes that changes."""
    book, mean = state.state2.code, scales.double().mean().float()
    rest = torch.nn.functional.pad(scales - mean, (0, -len(scales) % NESTED_BLOCK)).view(-1, NESTED_BLOCK)
    nested = rest.abs().amax(1)
    assert (state.offset - mean).abs() <= 1e-6 * mean, f"{name}: mean of scales"
    assert ((state.state2.absmax - nested).abs() <= 1e-6 * mean).all(), f"{name}: scales of scales"
    relative = (rest * (1 / nested)[:, None]).flatten()[:len(scales)]
    codes = nearest(relative, book)
    changed = codes != state.absmax
    apart = (relative[changed, None] - (book[:-1] + book[1:]) / 2).abs().amin(1)
    assert (apart < TABLE_STEP).all(), f"{name}: a scale has another code than the nearest"
    for stored, exact in ((state.offset, mean), (state.state2.absmax, nested), (state.absmax, codes)):
        stored.copy_(exact)
    return changed.sum().item()


def check_nf4(name, weight, module):
    """Codes, scales and numbers, against the formulas. Returns how many codes of scales that changes."""
    import bitsandbytes

    assert weight.shape[1] % BLOCK == 0, f"{name}: {weight.shape}"
    state, blocks = module.weight.quant_state, weight.float().view(-1, BLOCK)
    scales = blocks.abs().amax(1, keepdim=True)
    codes = nearest(blocks * (1 / scales), state.code)
    packed = codes.view(-1, 2) @ torch.tensor([16, 1])
    assert torch.equal(module.weight.data.flatten(), packed.to(torch.uint8)), f"{name}: codes"
    changed = 0
    if state.nested:
        changed = make_nested_exact(name, state, scales.flatten())
        nested = state.state2.absmax.repeat_interleave(NESTED_BLOCK)[:len(scales)]
        stored = (state.state2.code[state.absmax.long()] * nested + state.offset)[:, None]
        assert (stored - scales).abs().max() <= 0.02 * scales.max(), f"{name}: scales"
    else:
        stored = state.absmax[:, None]
        assert torch.equal(stored, scales), f"{name}: scales"
    numbers = (state.code[codes] * stored).view(weight.shape).to(weight.dtype)
    assert torch.equal(bitsandbytes.functional.dequantize_4bit(module.weight, state), numbers), f"{name}: numbers"
    return changed


def check_int8(name, weight, module):
    halves = weight.half().float()
    scales = halves.abs().amax(1)
    assert torch.equal(module.weight.SCB, scales), f"{name}: scales"
    assert torch.equal(module.weight.data, (halves * (127 / scales)[:, None]).round().to(torch.int8)), f"{name}: codes"
    return 0


def load(folder, kind, dtype=torch.float32):
    """The model, and how many codes of scales are others than the library's."""
    import bitsandbytes

    is_nf4 = kind != INT8
    config = (transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                              bnb_4bit_use_double_quant=kind == DOUBLE, bnb_4bit_compute_dtype=dtype)
              if is_nf4 else transformers.BitsAndBytesConfig(load_in_8bit=True))
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, quantization_config=config, attn_implementation="eager", output_loading_info=True)
    for what, names in report.items():
        assert not names, f"{folder}: {what}: {names}"
    weights = load_file(folder / "model.safetensors")
    kind_of_module = bitsandbytes.nn.Linear4bit if is_nf4 else bitsandbytes.nn.Linear8bitLt
    modules = {name: module for name, module in model.named_modules() if isinstance(module, kind_of_module)}
    expected = {name for name in weights if name.endswith("_proj.weight")}
    assert {f"{name}.weight" for name in modules} == expected, f"quantized are {sorted(modules)}"
    check = check_nf4 if is_nf4 else check_int8
    changed = sum(check(name, weights[f"{name}.weight"].to(dtype), module) for name, module in modules.items())
    return model.train(), changed


def off_ties(weight):
    """A matrix whose int8 codes are the same however 127 / scale is rounded, which decides about numbers halfway
    between two codes: bitsandbytes' CPU and CUDA code round it differently."""
    weight = weight.clone()
    while True:
        halves = weight.half().float()
        relative = halves / halves.abs().amax(1, keepdim=True) * 127
        ties = (relative.abs() % 1 - 0.5).abs() < 1e-3
        if not ties.any():
            return weight
        weight[ties] *= 1 - 2**-7
