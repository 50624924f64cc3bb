// probe() runs one batch through a model of a Hugging Face folder and writes everything that comes
// of it to a file, to compare with what another program gives for the same weights and tokens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace longshore::trainer {

struct ProbeRequest {
  std::filesystem::path model;   // folder with config.json and weights
  std::filesystem::path inputs;  // as longshore/trainer/step/inputs.h says
  std::filesystem::path out;
  bool gradients = false;              // needs labels
  std::filesystem::path adapter = {};  // peft's folder, of an adapter for `model`; empty: none
  std::vector<std::string> overrides;  // key=value, of the keys that probe_footer() lists
};

// Writes a safetensors file, whole or not at all, with these tensors in float32 (bfloat16 exactly
// converted); B, T as the inputs, V vocabulary, C width:
//
//   hidden.embed       [B,T,C]  what enters the first layer
//   hidden.layers.N    [B,T,C]  what leaves layer N
//   hidden.final_norm  [B,T,C]
//   hidden.vision.embed, hidden.vision.layers.N, hidden.vision.post_layernorm, hidden.projector
//                               where images are read: [N,P,E], and [N,R,C]
//                               (longshore/models/families/vision.h)
//   logits             [B,T,V]  after a soft-cap
//
// with labels also
//
//   token_loss         [B,T]    nats at each position, of the logits above; 0 where not trained
//   loss               []       mean over trained targets, as the head for training gives it
//
// and with gradients grad.NAME for each trainable parameter: the gradient of `loss`, from the plan
// that a training step of the asked policy and offload runs. With an adapter all else is frozen,
// and these are grad_adapter.NAME, NAME as in the adapter's file.
//
// Prints what it read and wrote. Throws ConfigError for keys, DataError for files, PlanError when
// this machine has not the memory.
void probe(const ProbeRequest& request);

// What --help says below the options.
std::string probe_footer();

}  // namespace longshore::trainer
