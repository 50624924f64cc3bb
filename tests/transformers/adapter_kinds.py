#!/usr/bin/env python3
"""Kinds of adapters are the same in Longshore as in peft: what each reads of the other, and merges.

usage: adapter_kinds.py TRAIN PROBE CONVERT

Small Llamas with random weights in float32, with a head of their own and with one that is the embedding:
- An adapter that train has made, peft loads; its logits are those of probe, and of the weights that convert merges
  it into. The same where train has added tokens, once the model's matrices have rows for them.
- An adapter of peft's, with random weights, has the same logits in probe, and train goes on with it.
The same of a small Qwen 3 MoE, one layer of which has an MLP in the place of experts.
Prints by how much logits differ, of the largest.
"""

import pathlib
import sys
import tempfile

import side_by_side  # first, for what it sets in the environment
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from side_by_side import run

VOCABULARY, RANK = 512, 4
SHAPE = ("model_name=llama3_8b base_emb_dim=64 base_num_decoder_layers=2 base_num_query_heads=4 base_num_kv_heads=2 "
         "head_dim=16 base_mlp_dim=96").split()
RUN = ("max_target_length=64 per_device_batch_size=2 gradient_accumulation_steps=1 backend=cpu "
       "peak_tflops_per_device=1 dtype=float32 dataset_type=synthetic dataset_path=").split()
TOKENIZER, TOKENS = "tests/goldens/tokenizers/bytelevel_bpe_qwen", 409
LIMIT = 5e-6  # how far logits may be apart, of the largest

# What peft's LoraConfig says, our keys for it, and whether it is of models whose head is the embedding, or is not.
KINDS = {
    "plain": ({}, [], "both"),
    "rslora": ({"use_rslora": True}, ["use_rslora=true"], "both"),
    "dora": ({"use_dora": True}, ["use_dora=true"], "both"),
    "dropout": ({"lora_dropout": 0.25}, ["lora_dropout=0.25"], "both"),
    "dora, dropout": ({"use_dora": True, "lora_dropout": 0.25}, ["use_dora=true", "lora_dropout=0.25"], "both"),
    "saved modules": ({"modules_to_save": ["embed_tokens", "lm_head"]}, ["modules_to_save=embed_tokens,lm_head"],
                      "untied"),
    "saved module": ({"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True},
                     ["modules_to_save=embed_tokens"], "tied"),
    "single tokens": ({"trainable_token_indices": [3, 77, 500]}, ["trainable_token_indices=3,77,500"], "both"),
    "patterns": ({"rank_pattern": {"layers.1.self_attn.q_proj": 2, "v_proj": 6}, "alpha_pattern": {"o_proj": 3}},
                 [r"rank_pattern=layers\.1\.self_attn\.q_proj:2,v_proj:6", "alpha_pattern=o_proj:3"], "both"),
    "head": ({"target_modules": ["q_proj", "v_proj", "lm_head"]}, ["lora_targets=q_proj,v_proj,lm_head"], "untied"),
}

# Of layers with experts and of layers without: "mixture". peft takes modules named as experts are for theirs.
DENSE = ["gate_proj", "up_proj", "down_proj"]
JOINT_EXPERTS = ["experts.gate_up_proj", "experts.down_proj"]
MIXTURE_SHAPE = ("model_name=qwen3_30b_a3b base_emb_dim=64 base_num_decoder_layers=3 base_num_query_heads=4 "
                 "base_num_kv_heads=2 head_dim=16 base_mlp_dim=96 num_experts=4 num_experts_per_tok=2 "
                 "base_moe_mlp_dim=32 mlp_only_layers=1").split()
MIXTURE_KINDS = {
    "all": ({"target_modules": ["q_proj", "o_proj"],
             "target_parameters": JOINT_EXPERTS + [f"mlp.{name}.weight" for name in DENSE]}, []),
    "without experts": ({"target_modules": ["q_proj"], "target_parameters": ["mlp.down_proj.weight"]},
                        ["lora_targets=q_proj,down_proj"]),
    "patterns": ({"target_modules": ["q_proj"], "target_parameters": ["down_proj", "1.mlp.up_proj.weight"],
                  "rank_pattern": {"up_proj.weight": 2, "experts.down_proj": 3}},
                 [r"rank_pattern=layers\.1\.mlp\.up_proj:2,experts\.down_proj:3", "alpha_pattern=mlp.gate_proj:3"]),
    "each expert": ({"target_modules": ["q_proj", *DENSE]}, ["lora_per_expert=true"]),
    "each expert alone": ({"target_modules": DENSE},
                          ["lora_per_expert=true", f"lora_targets={','.join(JOINT_EXPERTS)}"]),
}


def difference(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


class Base:
    """A folder with new weights, and who computes with it."""

    def __init__(self, programs, work, tied, vocabulary=VOCABULARY, more=0, shape=SHAPE):
        self.train, self.probe, self.convert = programs
        self.work, self.folder = work, work / "new" / "model"
        run(self.train, "--config", "llama3_8b.yml", *shape, f"vocab_size={vocabulary}", *RUN,
            f"logits_via_embedding={str(tied).lower()}", f"base_output_directory={work}", "run_name=new", "steps=1",
            "learning_rate=0")
        self.ids = torch.randint(0, vocabulary + more, (2, 48), generator=torch.Generator().manual_seed(1))
        self.ids[0, 5], self.ids[1, 7] = 3, 77
        save_file({"input_ids": self.ids}, work / "inputs.safetensors")

    def model(self, folder=None):
        return transformers.AutoModelForCausalLM.from_pretrained(folder or self.folder, attn_implementation="eager")

    def logits(self, model):
        with torch.no_grad():
            return model.eval()(input_ids=self.ids, use_cache=False).logits

    def our_logits(self, adapter):
        out = self.work / "out.safetensors"
        run(self.probe, "--model", self.folder, "--adapter", adapter, "--inputs", self.work / "inputs.safetensors",
            "--out", out, "backend=cpu")
        return load_file(out)["logits"]

    def trained(self, name, *keys):
        run(self.train, "--config", "finetune.yml", *RUN, f"load_parameters_path={self.folder}",
            f"base_output_directory={self.work}", f"run_name={name}", "steps=3", "learning_rate=0.01", *keys)
        return self.work / name

    def test_ours(self, name, keys):
        folder = self.trained(name, f"lora_rank={RANK}", f"lora_alpha={2 * RANK}", *keys)
        theirs = self.logits(peft.PeftModel.from_pretrained(self.model(), folder / "adapter"))
        assert difference(self.logits(self.model()), theirs) > 1e-2, "the adapter changes too little to be seen"
        run(self.convert, "--run", folder, "--to", self.work / f"{name}, merged")
        merged = self.logits(self.model(self.work / f"{name}, merged"))
        return difference(self.our_logits(folder / "adapter"), theirs), difference(merged, theirs)

    def test_added_tokens(self):
        name, added = "added", ["<one>", "<two>"]
        folder = self.trained(name, f"lora_rank={RANK}", f"add_tokens={','.join(added)}", f"tokenizer_path={TOKENIZER}")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "adapter")
        assert tokenizer.convert_tokens_to_ids(added) == [TOKENS, TOKENS + 1]
        model = self.model()
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        with torch.no_grad():
            for matrix in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
                matrix[TOKENS:] = matrix[:TOKENS].mean(0)
        theirs = self.logits(peft.PeftModel.from_pretrained(model, folder / "adapter"))
        run(self.convert, "--run", folder, "--to", self.work / "added, merged")
        merged = self.work / "added, merged"
        assert len(transformers.AutoTokenizer.from_pretrained(merged)) == len(tokenizer)
        return difference(self.logits(self.model(merged)), theirs)

    def test_theirs(self, name, config):
        torch.manual_seed(2)
        config = {"target_modules": "all-linear", **config}
        model = peft.get_peft_model(self.model(), peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, task_type="CAUSAL_LM",
                                                                  **config))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.05 * torch.randn_like(parameter))
        adapter = self.work / f"{name}, theirs"
        model.save_pretrained(adapter)
        self.trained(f"{name}, continued", f"load_adapter_path={adapter}")
        return difference(self.our_logits(adapter), self.logits(model))


def expect_same(name, apart):
    print(f"{name}: train's adapter {apart[0]:.1g}, merged {apart[1]:.1g}, peft's adapter {apart[2]:.1g}", flush=True)
    assert max(apart) <= LIMIT, f"differs by {max(apart):.2g}, allowed {LIMIT}"


def main():
    programs = [pathlib.Path(program) for program in sys.argv[1:]]
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        for tied in (False, True):
            work = pathlib.Path(folder) / ("tied" if tied else "untied")
            work.mkdir()
            base = Base(programs, work, tied)
            for name, (config, keys, of) in KINDS.items():
                if of not in ("both", work.name):
                    continue
                expect_same(f"{work.name}, {name}", (*base.test_ours(name, keys), base.test_theirs(name, config)))
            of_tokens = work / "tokens"
            of_tokens.mkdir()
            apart = Base(programs, of_tokens, tied, TOKENS, 2).test_added_tokens()
            print(f"{work.name}, added tokens: merged {apart:.1g}", flush=True)
            assert apart <= LIMIT, f"differs by {apart:.2g}, allowed {LIMIT}"
        work = pathlib.Path(folder) / "mixture"
        work.mkdir()
        base = Base(programs, work, False, shape=MIXTURE_SHAPE)
        for name, (config, keys) in MIXTURE_KINDS.items():
            expect_same(f"mixture, {name}", (*base.test_ours(name, keys), base.test_theirs(name, config)))


main()
