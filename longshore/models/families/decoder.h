// decoder() and cached_decoder() trace decoders of all families, stage by stage.
//
// Weights have Hugging Face's names. Stages: those of vision.h, where images are read; `embed`
// (token ids to the first carry, with the images' rows at their places, and the rotation tables),
// `decoder` (the scan), `head` (final norm, output projection, loss).
#pragma once

#include <optional>
#include <string>

#include "longshore/models/families/decoder_config.h"
#include "longshore/models/ir/model.h"
#include "longshore/models/ops/distillation_loss.h"
#include "longshore/models/ops/policy_gradient_loss.h"
#include "longshore/models/ops/preference_loss.h"

namespace longshore::models {

// What the head computes.
enum class Head {
  loss,  // batch `targets` i32 [B,T] -> sum of token losses, or a preference's
  // batch `targets`, `segments` -> log-probabilities of sequences [B,T], of OutputRole::log_probs
  log_probs,
  // the K tokens that are most likely to come next i32 [B,T,K], and their log-probabilities [B,T,K]
  top_log_probs,
  logits,  // batch `rows` i32 [N] -> logits [N,V] of chosen positions, in `dtype`
  // batch `targets` -> final norm [B,T,C] and logits [B,T,V], in `dtype`; with images their rows
  // [N,R,C] and what the tower gives [N,P,E]; the loss
  hidden_states,
};

// The batch inputs of preferences: log-probabilities that a reference gives to sequences, f32
// [B,T], the KL estimate of kto, f32 [B], and `targets` as they are where prompts are learnt too.
inline constexpr const char *kReferenceLogProbs = "reference_log_probs", *kKl = "kl",
                            *kNextTokens = "next_tokens";

// What is learnt from pairs of answers, which are segments of a row in the places that
// preference_loss gives them.
struct PreferenceObjective {
  PreferenceLossOptions loss;
  bool has_reference = true;
  // Of the token losses of chosen answers, which are added: OutputRole::sft_loss. 0: none.
  double sft_weight = 0;
  bool sft_has_prompts = false;
};

// The batch inputs of policy gradients, f32 [B,T], at each target's position: its advantage, and
// its log-probability by the policy that drew it; and kReferenceLogProbs, here also of each target.
inline constexpr const char *kAdvantages = "advantages", *kOldLogProbs = "old_log_probs";

// The batch inputs of distillation: at each position the K most likely tokens by a teacher, i32
// [B,T,K], or -1 where it says nothing, and their log-probabilities, f32 [B,T,K].
inline constexpr const char *kTeacherTokens = "teacher_tokens",
                            *kTeacherLogProbs = "teacher_log_probs";

// What is learnt from a teacher: weight times the divergence from what it says, and 1 - weight
// times the cross-entropy of the text.
struct DistillationObjective {
  DistillationOptions loss;
  int64_t top_k = 1;  // K
  double weight = 1;  // 0 to 1
};

struct HeadOptions {
  Head head = Head::loss;
  // Of Head::loss, one of them or none. Policy gradients also leave the targets' log-probabilities,
  // of OutputRole::log_probs.
  std::optional<PreferenceObjective> preference = {};
  std::optional<PolicyGradientOptions> policy_gradient = {};
  std::optional<DistillationObjective> distillation = {};
  int64_t rows = 1;   // N, for logits
  int64_t top_k = 1;  // K, for top_log_probs
};

// Batch inputs: `tokens` i32 [B,T], `positions` i32 [B,T], `segments` where there are, and the
// head's. With images also `pixel_values` (vision.h); `image_places` i32 [N,R], where in the
// flattened [B*T] the rows of each image go, or -1; and `blocks` i32 [B,T], the positions that see
// each other both ways (AttentionMask::blocks).
Model decoder(const DecoderConfig& config, const HeadOptions& head = {});

// What names of the decoder's weights begin with: "", or "language_model." where it reads images,
// as in published folders.
std::string decoder_prefix(const DecoderConfig& config);

// The same decoder, for text that is made token by token: each run takes the next T tokens of every
// row, whose places in it are `positions`, and keeps their keys and values. Of a model with images
// T of more than one is a prompt, with `image_places` and `pixel_values` where vision has images,
// and `spans` i32 [B,T,2] as cached_attention has them. Each layer has the
// states `key_cache` and `value_cache` [B,P,G,D], P being `capacity`, the most tokens a row may
// have. Batch inputs: `tokens`, `positions`, and `rows` i32 [B], the positions of the flattened
// [B*T] whose logits [B,V] come out. Equal to `decoder` up to the order of summation.
Model cached_decoder(const DecoderConfig& config, int64_t capacity);

}  // namespace longshore::models
