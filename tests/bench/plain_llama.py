"""Llama with nothing but what training needs, as one would write it in PyTorch: the peer of Longshore's."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def linear(rows, columns):
    return nn.Linear(columns, rows, bias=False)


class RMSNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config["hidden_size"]))
        self.epsilon = config["rms_norm_eps"]

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.epsilon)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, heads, kv_heads = (config[key] for key in ("hidden_size", "num_attention_heads", "num_key_value_heads"))
        ffn, self.head_dim = config["intermediate_size"], config["head_dim"]
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(config), RMSNorm(config)
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name, out in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
            setattr(self.self_attn, name, linear(out * self.head_dim, width))
        self.self_attn.o_proj = linear(width, heads * self.head_dim)
        self.mlp.gate_proj, self.mlp.up_proj = linear(ffn, width), linear(ffn, width)
        self.mlp.down_proj = linear(width, ffn)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        y, a, m = self.input_layernorm(x), self.self_attn, self.mlp
        q, k, v = (p(y).view(batch, length, -1, self.head_dim).transpose(1, 2) for p in (a.q_proj, a.k_proj, a.v_proj))
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + a.o_proj(y.transpose(1, 2).reshape(batch, length, -1))
        y = self.post_attention_layernorm(x)
        return x + m.down_proj(F.silu(m.gate_proj(y)) * m.up_proj(y))


class Llama(nn.Module):
    """`config` has the keys of Hugging Face's config.json; the first of each so many layers is computed again,
    none for 0."""

    def __init__(self, config, checkpointed_of):
        super().__init__()
        self.checkpointed_of, self.head_dim, self.theta = checkpointed_of, config["head_dim"], config["rope_theta"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config)
        self.lm_head = linear(config["vocab_size"], config["hidden_size"])

    def forward(self, tokens, targets):
        on = {"device": tokens.device}
        frequencies = self.theta ** (-torch.arange(0, self.head_dim, 2, **on) / self.head_dim)
        angle = torch.outer(torch.arange(tokens.shape[1], **on), frequencies)
        cos, sin = angle.cos(), angle.sin()
        x = self.embed_tokens(tokens)
        if torch.is_autocast_enabled(tokens.device.type):
            x = x.to(torch.get_autocast_dtype(tokens.device.type))  # or all sums with it were float32
        for i, layer in enumerate(self.layers):
            is_checkpointed = self.checkpointed_of and i % self.checkpointed_of == 0
            x = checkpoint(layer, x, cos, sin, use_reentrant=False) if is_checkpointed else layer(x, cos, sin)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = self.lm_head(self.norm(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


RATE, BETAS, EPS, DECAY, CLIP = 1e-4, (0.9, 0.95), 1e-8, 0.1, 1.0


def training_step(model, losses_of, dtype, device="cpu"):
    """A step of any module on micro-batches, in float32 or, by autocast, in bfloat16: returns its mean loss."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS, fused=True)

    def step():
        total = 0
        for loss_of in losses_of:
            with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
                loss = loss_of() / len(losses_of)
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return total.item()

    return step
