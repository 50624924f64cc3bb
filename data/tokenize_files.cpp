#include "data/tokenize_files.h"

#include <algorithm>
#include <deque>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/document_reader.h"
#include "data/token_shard.h"

namespace longshore::data {
namespace {

// Large enough that handing it to a thread costs nothing beside encoding it.
constexpr size_t kChunkBytes = size_t{256} << 10;

std::vector<int32_t> encode_documents(const Tokenizer& tokenizer,
                                      const std::vector<std::string>& documents) {
  std::vector<int32_t> tokens;
  for (const std::string& document : documents) {
    const std::vector<int32_t> ids = tokenizer.encode(document);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    tokens.push_back(tokenizer.eos_id());
  }
  return tokens;
}

// Encodes chunks on all cores and appends them in the order of their coming.
class OrderedEncoder {
 public:
  OrderedEncoder(const Tokenizer& tokenizer, TokenShardWriter& writer)
      : tokenizer_(tokenizer),
        writer_(writer),
        most_at_work_(std::max(1u, std::thread::hardware_concurrency())) {}

  void add(std::vector<std::string> chunk) {
    if (at_work_.size() == most_at_work_) append_first();
    at_work_.push_back(
        std::async(std::launch::async, [&tokenizer = tokenizer_, chunk = std::move(chunk)] {
          return encode_documents(tokenizer, chunk);
        }));
  }

  void finish() {
    while (!at_work_.empty()) append_first();
  }

 private:
  void append_first() {
    writer_.append(at_work_.front().get());
    at_work_.pop_front();
  }

  const Tokenizer& tokenizer_;
  TokenShardWriter& writer_;
  size_t most_at_work_;
  std::deque<std::future<std::vector<int32_t>>> at_work_;
};

}  // namespace

TokenizeSummary tokenize_files(const Tokenizer& tokenizer,
                               std::span<const std::filesystem::path> inputs,
                               const std::filesystem::path& output) {
  if (tokenizer.eos_id() < 0)
    throw DataError(tokenizer.path().string() +
                    ": the tokenizer has no eos; it is expected to end each document");
  for (const std::filesystem::path& input : inputs) {
    std::error_code error;
    if (std::filesystem::equivalent(input, output, error))
      throw DataError(output.string() + ": the output is also an input");
  }

  TokenShardWriter writer(output, tokenizer.vocab_size(), tokenizer.content_hash());
  OrderedEncoder encoder(tokenizer, writer);
  int64_t document_count = 0;
  std::vector<std::string> chunk;
  size_t chunk_bytes = 0;
  for (const std::filesystem::path& input : inputs) {
    DocumentReader reader(input);
    for (std::string document; reader.next(document);) {
      ++document_count;
      chunk_bytes += document.size();
      chunk.push_back(std::move(document));
      if (chunk_bytes >= kChunkBytes) {
        encoder.add(std::exchange(chunk, {}));
        chunk_bytes = 0;
      }
    }
  }
  if (document_count == 0)
    throw DataError(inputs.empty() ? output.string() + ": no input files"
                                   : inputs.front().string() + ": found no text to tokenize");
  encoder.add(std::move(chunk));
  encoder.finish();
  writer.finish(document_count);
  return {.documents = document_count, .tokens = writer.token_count()};
}

}  // namespace longshore::data
