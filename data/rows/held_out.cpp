#include "data/rows/held_out.h"

#include <cmath>
#include <span>
#include <string_view>

#include "base/split_mix.h"
#include "data/files/fnv1a.h"

namespace longshore::data {

HeldOutDocuments::HeldOutDocuments(const TokenFile& file, double fraction) {
  std::vector<int32_t> tokens;
  is_held_out_.reserve(static_cast<size_t>(file.document_count()));
  for (int64_t i = 0; i < file.document_count(); ++i) {
    const TokenFile::Range document = file.document(i);
    tokens.resize(static_cast<size_t>(document.count));
    file.read(document.first, tokens);
    const auto bytes = std::as_bytes(std::span(tokens));
    // Mixed, since FNV-1a's high bits depend on the last bytes alone.
    const uint64_t hash =
        split_mix(fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    is_held_out_.push_back(std::ldexp(static_cast<double>(hash), -64) < fraction);
    count_ += is_held_out_.back() ? 1 : 0;
  }
}

}  // namespace longshore::data
