#!/usr/bin/env python3
"""A model of images that transformers wrote is fine-tuned, and transformers reads what came out.

usage: image_model.py TRAIN PROBE CONVERT GENERATE

A small PaliGemma 2 with random weights learns what color the square in a picture has. Loaded by
transformers the trained folder gives probe's logits, within 1e-5 of the largest, and its greedy texts
name the colors of squares that were not trained on. Then the recipes with images run on small models
of their families for two steps: transformers gives probe's logits again, and what changed is what was
to be trained. What generate says of two images is transformers' greedy text, token by token.
"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file, save_file

COLORS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 220), "yellow": (230, 220, 40),
          "white": (245, 245, 245), "purple": (150, 40, 170)}
QUESTION = "what color is the square?"
SIDE = 28  # of the models' images: pixels go in as they are
IMAGE, START, END = 887, 888, 889  # their tokens; the tokenizer of the goldens has 887
TEXT = dict(vocab_size=1024, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, sliding_window=16)
VISION = dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=3, image_size=SIDE,
              patch_size=7, vision_use_head=False)
SMALL = ("base_emb_dim=64 base_num_query_heads=4 base_num_kv_heads=2 head_dim=16 "
         "base_mlp_dim=96 vocab_size=1024 sliding_window_size=16 query_pre_attn_scalar=16 "
         f"image_size_for_vit={SIDE} patch_size_for_vit=7 hidden_size_for_vit=48 num_hidden_layers_for_vit=2 "
         f"num_attention_heads_for_vit=3 intermediate_size_for_vit=96 image_token_id={IMAGE} "
         "max_target_length=64 dtype=float32 backend=cpu peak_tflops_per_device=1").split()
FEW = ["per_device_batch_size=4", "gradient_accumulation_steps=1", "steps=2", "learning_rate=0.01"]
PALIGEMMA2 = ["base_num_decoder_layers=3"]
GEMMA3 = ["base_num_decoder_layers=7", "mm_tokens_per_image=4"]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def write_png(path, pixels):
    """Of rows of (red, green, blue)."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def squares(folder, count, seed, line_of):
    """`count` pictures and a line for each; returns the lines' file, and (pixels, color) of each."""
    folder.mkdir()
    made = []
    draw = random.Random(seed)
    with open(folder / "data.jsonl", "w") as lines:
        for i in range(count):
            color = draw.choice(sorted(COLORS))
            side = draw.randint(7, 15)
            left, top = draw.randint(0, SIDE - side), draw.randint(0, SIDE - side)
            pixels = [[COLORS[color] if left <= x < left + side and top <= y < top + side else (40, 40, 40)
                       for x in range(SIDE)] for y in range(SIDE)]
            write_png(folder / f"{i}.png", pixels)
            lines.write(json.dumps(line_of(f"{i}.png", color)) + "\n")
            made.append((pixels, color))
    return folder / "data.jsonl", made


def suffix_line(image, color):
    return {"image": image, "prefix": QUESTION, "suffix": color}


def chat_line(image, color):
    asked = [{"type": "image", "image": image}, {"type": "text", "text": QUESTION}]
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": color}]}


def pixel_values(pictures):
    """As the image processor has them of pictures that have the right size."""
    levels = torch.tensor([pixels for pixels, color in pictures], dtype=torch.float32)
    return (levels / 255 * 2 - 1).permute(0, 3, 1, 2).contiguous()


def write_tokenizer(folder, names):
    file = json.loads(pathlib.Path("tests/goldens/tokenizers/gemma_bpe/tokenizer.json").read_text())
    for i, name in enumerate(names):
        file["added_tokens"].append(dict(file["added_tokens"][0], id=IMAGE + i, content=name))
    (folder / "tokenizer.json").write_text(json.dumps(file))


def paligemma2(folder):
    config = transformers.PaliGemmaConfig(
        text_config=dict(TEXT, model_type="gemma2"), vision_config=dict(VISION, model_type="siglip_vision_model"),
        image_token_index=IMAGE, projection_dim=64)
    write_model(transformers.PaliGemmaForConditionalGeneration(config), folder)
    write_tokenizer(folder, ["<image>"])


def gemma3(folder):
    config = transformers.Gemma3Config(
        text_config=dict(TEXT, num_hidden_layers=7, rope_scaling={"rope_type": "linear", "factor": 8.0}),
        vision_config=dict(VISION), mm_tokens_per_image=4,
        image_token_index=IMAGE, boi_token_index=START, eoi_token_index=END)
    write_model(transformers.Gemma3ForConditionalGeneration(config), folder)
    write_tokenizer(folder, ["<image_soft_token>", "<start_of_image>", "<end_of_image>"])


def write_model(model, folder):
    with torch.no_grad():  # biases and a projection begin as zeros
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "mm_input_projection" in name:
                parameter.normal_(std=0.02)
    model.save_pretrained(folder)


def loaded(folder):
    model, report = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    for kind, names in report.items():
        assert not names, f"{folder}: {kind}: {names}"
    return model.eval()


def prompt(folder, images):
    """Ids of the question behind an image, as PaliGemma's processor has them."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    text = tokenizer.encode(QUESTION + "\n", add_special_tokens=False)
    patches = (SIDE // VISION["patch_size"]) ** 2
    ids = torch.tensor([[IMAGE] * patches + [tokenizer.convert_tokens_to_ids("<bos>"), *text]] * images)
    return tokenizer, ids


def named(folder, pictures):
    """What transformers says of each picture."""
    model = loaded(folder)
    tokenizer, ids = prompt(folder, len(pictures))
    with torch.no_grad():
        said = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids),
                              pixel_values=pixel_values(pictures), max_new_tokens=4, do_sample=False,
                              eos_token_id=tokenizer.convert_tokens_to_ids("<eos>"), pad_token_id=0)
    return tokenizer.batch_decode(said[:, ids.shape[1]:], skip_special_tokens=True)


def greedy(folder, ids, pictures, tokens, count):
    """The tokens with which transformers goes on, of the first `count`: others are no text."""
    with torch.no_grad():
        types = (ids == IMAGE).long() if tokens == 4 else torch.zeros_like(ids)
        said = loaded(folder).generate(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=types,
                                       pixel_values=pixel_values(pictures), max_new_tokens=12, do_sample=False,
                                       eos_token_id=-1, pad_token_id=0,
                                       suppress_tokens=list(range(count, TEXT["vocab_size"])))
    return said[0, ids.shape[1]:]


def expect_same_text(folder, generate, images, pictures, tokens):
    """Of generate and of transformers, about two images."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    if tokens == 4:
        image = f"\n\n<start_of_image>{'<image_soft_token>' * tokens}<end_of_image>\n\n"
        text = f"<bos><start_of_turn>user\n{image}{image}{QUESTION}<end_of_turn>\n<start_of_turn>model\n"
    else:
        text = f"{'<image>' * (2 * tokens)}<bos>{QUESTION}\n"
    ids = tokenizer.encode(text, add_special_tokens=False)
    expected = greedy(folder, torch.tensor([ids]), pictures[:2], tokens, len(tokenizer))
    ends = [tokenizer.convert_tokens_to_ids(name) for name in ("<eos>", "<end_of_turn>")]
    assert not set(ends) & set(expected.tolist()), "a text that ends early says little"
    found = run(generate, "--model", folder, "--prompt", QUESTION, "--temperature", 0, "--max-tokens", 12,
                "--image", images / "0.png", "--image", images / "1.png", "use_multimodal=true", "dtype=float32",
                "backend=cpu", *(["--chat-template", "gemma"] if tokens == 4 else []))
    text = tokenizer.decode(expected, skip_special_tokens=True)
    assert found.rstrip("\n") == text.rstrip("\n"), f"{folder}: found {found!r}, expected {text!r}"


def expect_same_logits(folder, probe, probed, pictures, work, tokens):
    """Of transformers and of probe, which is told `probed`; returns by how much they differ."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 880, (2, 40), generator=draw)
    ids[:, 2:2 + tokens] = IMAGE
    types = torch.zeros_like(ids)
    if tokens == 4:  # Gemma 3: 1 is an image
        types[ids == IMAGE] = 1
    else:  # PaliGemma: 1 is the suffix
        types[:, 30:] = 1
    inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=types,
                  pixel_values=pixel_values(pictures[:2]))
    save_file(inputs, work / "inputs.safetensors")
    run(probe, *probed, "--inputs", work / "inputs.safetensors", "--out", work / "out.safetensors", "backend=cpu")
    found = load_file(work / "out.safetensors")["logits"]
    model = loaded(folder)
    with torch.no_grad():
        if tokens != 4:  # or it takes all of a text for a prefix
            model.train()
        expected = model(**inputs, use_cache=False).logits
    difference, limit = (found - expected).abs().max(), 1e-5 * expected.abs().max()
    assert difference <= limit, f"{folder}: differs by {difference}, allowed {limit}"
    return difference


def learn_colors(train, probe, work):
    base, runs = work / "base", work / "runs"
    paligemma2(base)
    lines, _ = squares(work / "seen", 200, 1, suffix_line)
    unseen_lines, unseen = squares(work / "unseen", 24, 2, suffix_line)
    run(train, "--config", "paligemma2_3b.yml", *SMALL, *PALIGEMMA2, "trainable_parameters_mask=[]",
        "per_device_batch_size=16", "steps=150", "learning_rate=3e-3", "learning_rate_schedule_steps=150",
        f"load_parameters_path={base}", f"tokenizer_path={base}", f"dataset_path={lines}",
        f"eval_dataset_path={unseen_lines}", f"base_output_directory={runs}", "run_name=squares")
    loss = json.loads((runs / "squares" / "summary.json").read_text())["validation_loss"]
    assert loss < 0.1, f"validation loss {loss}, expected less than 0.1"
    folder = runs / "squares" / "model"
    difference = expect_same_logits(folder, probe, ["--model", folder], unseen, work, 16)
    for (pixels, color), said in zip(unseen, named(folder, unseen)):
        assert said.strip() == color, f"found {said!r}, expected {color!r}"
    print(f"squares: validation loss {loss:.2g}, logits differ by {difference:.2g}, {len(unseen)} named right")


def few_steps(train, probe, convert, generate, recipe, write, tokens, keys, line_of, is_trained, work):
    base, runs = work / "base", work / "runs"
    write(base)
    lines, pictures = squares(work / "data", 8, 3, line_of)
    run(train, "--config", f"{recipe}.yml", *SMALL, *keys, *FEW, f"load_parameters_path={base}",
        f"tokenizer_path={base}", f"dataset_path={lines}", f"base_output_directory={runs}", "run_name=few",
        "eval_dataset_path=", "sample_tokens=0")
    folder = runs / "few" / "model"
    probed = ["--model", folder]
    if "lora" in recipe:
        folder, adapter = work / "merged", runs / "few" / "adapter"
        run(convert, "--from", base, "--adapter", adapter, "--to", folder, "use_multimodal=true")
        probed = ["--model", base, "--adapter", adapter]
    difference = expect_same_logits(folder, probe, probed, pictures, work, tokens)
    expect_same_text(folder, generate, work / "data", pictures, tokens)
    old, new = (loaded(path).state_dict() for path in (base, folder))  # by one spelling of names
    changed = {name for name in new if not torch.equal(new[name], old[name])}
    expected = {name for name in new if is_trained(name)}
    assert changed == expected, f"{recipe}: changed {sorted(changed ^ expected)}"
    print(f"{recipe}: logits differ by {difference:.2g}, {len(changed)} tensors of {len(new)} were trained")


def main():
    train, probe, convert, generate = sys.argv[1:]
    torch.set_num_threads(2)
    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        learn_colors(train, probe, pathlib.Path(name))
    attention = re.compile(r"language_model.*self_attn\.[qkvo]_proj")
    layers = re.compile(r"language_model.*_proj")
    for recipe, write, tokens, keys, line_of, trained in (
            ("paligemma2_3b", paligemma2, 16, PALIGEMMA2, suffix_line, attention),
            ("paligemma2_3b_lora", paligemma2, 16, PALIGEMMA2, suffix_line, attention),
            ("gemma3_4b_vision_lora", gemma3, 4, GEMMA3, chat_line, layers)):
        with tempfile.TemporaryDirectory() as name:
            few_steps(train, probe, convert, generate, recipe, write, tokens, keys, line_of, trained.search,
                      pathlib.Path(name))


main()
