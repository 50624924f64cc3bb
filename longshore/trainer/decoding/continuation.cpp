#include "longshore/trainer/decoding/continuation.h"

#include <algorithm>

namespace longshore::trainer {

std::vector<int32_t> continue_text(Decoding& decoding, const Prompt& prompt,
                                   const ContinuationOptions& options, offload::Ledger& ledger,
                                   const std::function<void(int32_t)>& on_token) {
  std::vector<int32_t> continuation;
  std::vector<float> logits = prompt.row ? decoding.append_prompt(*prompt.row, ledger)
                                         : decoding.append(prompt.tokens, ledger);
  const size_t known = std::min(logits.size(), static_cast<size_t>(options.vocabulary));
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    const int32_t token = choose_token(std::span(logits).first(known), options.sampling, i);
    if (std::ranges::count(options.end_tokens, token) > 0) break;
    continuation.push_back(token);
    if (on_token) on_token(token);
    if (i + 1 == options.max_tokens || decoding.room() == 0) break;
    logits = decoding.append({&token, 1}, ledger);
  }
  return continuation;
}

}  // namespace longshore::trainer
