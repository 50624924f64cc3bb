#!/usr/bin/env python3
"""Of a model that also reads images, convert writes the text model that transformers has in it.

usage: text_model.py CONVERT

Gemma 3, small and with random weights, as transformers writes it. The converted folder loads as a
text model, and its logits and those of the whole model given text alone are equal to the bit.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

TEXT = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=7,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=21,
            sliding_window=5, rope_scaling={"rope_type": "linear", "factor": 8.0})
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
              image_size=28, patch_size=14, vision_use_head=False)


def whole_model():
    torch.manual_seed(1)
    config = transformers.Gemma3Config(text_config=dict(TEXT), vision_config=dict(VISION),
                                       mm_tokens_per_image=4, image_token_index=96)
    model = transformers.Gemma3ForConditionalGeneration(config)
    with torch.no_grad():  # norms and biases begin as zeros
        for parameter in model.parameters():
            parameter.normal_(std=0.2)
    return model.eval()


def logits(model, tokens):
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    whole = whole_model()
    tokens = torch.randint(3, 90, (2, 21))
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        whole.save_pretrained(work / "whole", max_shard_size="50KB")
        assert len(list((work / "whole").glob("model-*.safetensors"))) > 2
        subprocess.run([sys.argv[1], "--from", work / "whole", "--to", work / "text"], check=True)
        text, report = transformers.AutoModelForCausalLM.from_pretrained(
            work / "text", output_loading_info=True)
    for kind, found in report.items():
        assert not found, f"{kind}: {found}"
    assert type(text) is transformers.Gemma3ForCausalLM, type(text)
    expected, found = logits(whole, tokens), logits(text.eval(), tokens)
    assert expected.std() > 0.1, "logits say nothing"
    assert torch.equal(expected, found), f"differ by {(expected - found).abs().max()}"
    print(f"transformers {transformers.__version__}: equal")


main()
