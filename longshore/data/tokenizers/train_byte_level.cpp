#include <algorithm>
#include <deque>
#include <future>
#include <string_view>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/processors.h"
#include "longshore/data/tokenizers/bpe_trainer.h"
#include "longshore/data/tokenizers/byte_level_json.h"
#include "longshore/data/tokenizers/known_splits.h"
#include "longshore/data/tokenizers/split_behavior.h"
#include "longshore/data/tokenizers/split_pattern.h"
#include "longshore/data/tokenizers/train_tokenizer.h"

namespace longshore::data {
namespace {

constexpr size_t kBatchBytes = size_t{4} << 20;

PieceCounts counted(const SplitPattern& pattern, const std::vector<std::string>& texts) {
  PieceCounts counts;
  std::vector<SplitPart> parts;
  for (const std::string& text : texts) {
    parts.clear();
    pattern.split(text, parts);
    for (const SplitPart& part : parts) ++counts[std::string(part.text)];
  }
  return counts;
}

// What comes of the batches is added up: in any order it is the same.
PieceCounts count_pieces(const NextText& next, const SplitPattern& pattern) {
  PieceCounts counts;
  std::deque<std::future<PieceCounts>> at_work;
  auto take_first = [&] {
    for (auto& [piece, count] : at_work.front().get()) counts[piece] += count;
    at_work.pop_front();
  };
  bool more = true;
  while (more) {
    std::vector<std::string> batch;
    size_t bytes = 0;
    for (std::string text; bytes < kBatchBytes && (more = next(text));) {
      bytes += text.size();
      batch.push_back(std::move(text));
    }
    if (std::ssize(at_work) == usable_processors()) take_first();
    at_work.push_back(std::async(std::launch::async, [&pattern, batch = std::move(batch)] {
      return counted(pattern, batch);
    }));
  }
  while (!at_work.empty()) take_first();
  return counts;
}

}  // namespace

std::string train_byte_level(const NextText& next, size_t vocab_size) {
  const std::vector<SpecialToken> special{{"<|begin_of_text|>"}, {"<|end_of_text|>"}};
  const size_t fewest = 256 + special.size();
  if (vocab_size < fewest)
    throw DataError("found a vocabulary of " + std::to_string(vocab_size) + ", expected at least " +
                    std::to_string(fewest) + ": the bytes, and where texts begin and end");
  const SplitPattern pattern(kLlama3Split);
  LearnedBpe learned = learn_bpe(count_pieces(next, pattern), vocab_size - special.size());
  const size_t found = learned.tokens.size() + special.size();
  if (found < vocab_size)
    throw DataError("found text from which only " + std::to_string(found) +
                    " tokens can be learnt, expected " + std::to_string(vocab_size));
  return tokenizer_json_of({.tokens = std::move(learned.tokens),
                            .merges = std::move(learned.merges),
                            .special = special,
                            .split = kLlama3Split,
                            .bos = special[0].text});
}

}  // namespace longshore::data
