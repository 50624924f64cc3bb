#include "longshore/data/rows/held_out.h"

#include <cmath>
#include <span>
#include <string_view>

#include "longshore/base/split_mix.h"
#include "longshore/data/files/fnv1a.h"
#include "longshore/data/rows/batch.h"

namespace longshore::data {
namespace {

std::vector<int32_t> tokens_of(const TokenFile& file, TokenFile::Range range) {
  std::vector<int32_t> tokens(static_cast<size_t>(range.count));
  file.read(range.first, tokens);
  return tokens;
}

// That of an answer that is there.
std::vector<int32_t> prompt_of(const TokenFile& file, int64_t first) {
  TokenFile::Range range = file.document(first);
  if (file.has_pairs() && range.count == 1) range = file.document(first + 1);
  std::vector<uint8_t> carries_loss(static_cast<size_t>(range.count));
  file.read_loss_mask(range.first, carries_loss);
  return tokens_of(file, {range.first, prompt_length(carries_loss)});
}

}  // namespace

HeldOutDocuments::HeldOutDocuments(const TokenFile& file, double fraction) {
  const int64_t together = file.has_pairs() ? 2 : 1;
  const bool has_answers = file.has_pairs() || file.has_column(kAdvantages);
  is_held_out_.reserve(static_cast<size_t>(file.document_count()));
  for (int64_t i = 0; i < file.document_count(); i += together) {
    const std::vector<int32_t> tokens =
        has_answers ? prompt_of(file, i) : tokens_of(file, file.document(i));
    const auto bytes = std::as_bytes(std::span(tokens));
    // Mixed, since FNV-1a's high bits depend on the last bytes alone.
    const uint64_t hash =
        split_mix(fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    const bool is_held_out = std::ldexp(static_cast<double>(hash), -64) < fraction;
    is_held_out_.insert(is_held_out_.end(), static_cast<size_t>(together), is_held_out);
    count_ += is_held_out ? together : 0;
  }
}

}  // namespace longshore::data
