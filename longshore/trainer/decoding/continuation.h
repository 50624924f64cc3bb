// The loop that continues a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "longshore/trainer/decoding/prompt.h"
#include "longshore/trainer/decoding/sampling.h"
#include "longshore/trainer/step/decoding.h"

namespace longshore::trainer {

struct ContinuationOptions {
  int64_t max_tokens = 0;
  int32_t vocabulary = 0;           // tokens from here on are nobody's, and not chosen
  std::vector<int32_t> end_tokens;  // end the text, and are not part of it
  Sampling sampling;
};

// Appends `prompt`, whose tokens are not empty, and what the model says follows it: until an end
// token, max_tokens, or the end of the cache. `on_token` is called with each token as it comes,
// before it is run. Returns the new tokens.
std::vector<int32_t> continue_text(Decoding& decoding, const Prompt& prompt,
                                   const ContinuationOptions& options, offload::Ledger& ledger,
                                   const std::function<void(int32_t)>& on_token = nullptr);

}  // namespace longshore::trainer
