#include "tests/models/autograd_llama.h"

#include <ATen/ops/full.h>

#include "tests/models/autograd.h"
#include "tests/models/plain.h"

namespace longshore::models {

AutogradLlama autograd_llama(const DecoderConfig& config, const Tensors& weights,
                             const at::Tensor& tokens, const at::Tensor& positions,
                             const at::Tensor& targets, double loss_gradient) {
  Tensors leaves = as_leaves(weights);
  const at::Tensor& embeddings = leaves.at("model.embed_tokens.weight");
  auto table =
      plain::rope_table(positions, config.head_dim, config.rope_base, embeddings.scalar_type());
  at::Tensor x = plain::embedding(tokens, embeddings);
  for (int layer = 0; layer < config.layers; ++layer) {
    auto weight = [&](const std::string& name) {
      return leaves.at("model.layers." + std::to_string(layer) + "." + name + ".weight");
    };
    at::Tensor n = plain::rms_norm(x, weight("input_layernorm"), config.norm_epsilon);
    at::Tensor q = plain::rope(plain::linear(n, weight("self_attn.q_proj")), table);
    at::Tensor k = plain::rope(plain::linear(n, weight("self_attn.k_proj")), table);
    at::Tensor v = plain::linear(n, weight("self_attn.v_proj"));
    x = x + plain::linear(plain::attention(q, k, v, config.head_dim), weight("self_attn.o_proj"));
    at::Tensor m = plain::rms_norm(x, weight("post_attention_layernorm"), config.norm_epsilon);
    at::Tensor act = plain::swiglu(plain::linear(m, weight("mlp.gate_proj")),
                                   plain::linear(m, weight("mlp.up_proj")));
    x = x + plain::linear(act, weight("mlp.down_proj"));
  }
  x = plain::rms_norm(x, leaves.at("model.norm.weight"), config.norm_epsilon);
  const at::Tensor& projection = config.tied_embeddings ? embeddings : leaves.at("lm_head.weight");
  at::Tensor loss = plain::cross_entropy(x, projection, targets);
  at::Tensor cotangent = at::full({}, loss_gradient, loss.options().requires_grad(false));
  return {loss.detach(), autograd({loss}, {cotangent}, leaves)};
}

}  // namespace longshore::models
