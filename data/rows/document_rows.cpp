#include "data/rows/document_rows.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace longshore::data {
namespace {

// So many rows that those which stay open at a block's end hardly count, and so few documents that
// packing a block again for one row takes little time.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockDocuments = 1 << 16;

// Best-fit decreasing.
std::vector<std::vector<TokenFile::Range>> packed(std::vector<TokenFile::Range> sequences,
                                                  int64_t length) {
  std::ranges::stable_sort(sequences, std::ranges::greater(), &TokenFile::Range::count);
  std::vector<std::vector<TokenFile::Range>> rows;
  std::set<std::pair<int64_t, size_t>> room;  // positions that are left, row
  for (const TokenFile::Range& sequence : sequences) {
    const int64_t positions = sequence.count - 1;
    auto tightest = room.lower_bound({positions, 0});
    if (tightest == room.end()) {
      tightest = room.emplace(length, rows.size()).first;
      rows.emplace_back();
    }
    const auto [left, row] = *tightest;
    rows[row].push_back(sequence);
    room.erase(tightest);
    room.emplace(left - positions, row);
  }
  return rows;
}

}  // namespace

DocumentRows::DocumentRows(std::shared_ptr<const TokenFile> file,
                           const DocumentRowsOptions& options)
    : file_(std::move(file)), options_(options) {
  if (!file_->has_documents())
    throw DataError(
        "a token file of version 1, which does not know where documents end; expected version 2 or "
        "later. Tokenize the text again.");
  for (int64_t document = 0; document < file_->document_count();) {
    const PackedBlock block = pack(document);
    blocks_.push_back({document, count_});
    count_ += static_cast<int64_t>(block.rows.size());
    document = block.end_document;
    counts_.documents += block.counts.documents;
    counts_.too_long += block.counts.too_long;
    counts_.untrained += block.counts.untrained;
    counts_.positions += block.counts.positions;
  }
  if (count_ == 0)
    throw DataError("found nothing to train on in " + plural(counts_.documents, "document") + ": " +
                    std::to_string(counts_.too_long) + " with more than the " +
                    std::to_string(options.length + 1) + " tokens that a row of " +
                    std::to_string(options.length) + " takes, " +
                    std::to_string(counts_.untrained) + " with nothing to learn in it");
}

void DocumentRows::read(int64_t index, const Row& into) const {
  const auto after = std::ranges::upper_bound(blocks_, index, {}, &Block::first_row);
  const Block& block = *(after - 1);
  const PackedBlock packed = pack(block.first_document);
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;
  int64_t at = 0;
  int32_t segment = kPadding;
  for (const Sequence& sequence : packed.rows[static_cast<size_t>(index - block.first_row)]) {
    tokens.resize(static_cast<size_t>(sequence.count));
    carries_loss.resize(tokens.size());
    file_->read(sequence.first, tokens);
    file_->read_loss_mask(sequence.first, carries_loss);
    into.put(at, ++segment, tokens, carries_loss);
    at += sequence.count - 1;
  }
}

DocumentRows::PackedBlock DocumentRows::pack(int64_t first_document) const {
  PackedBlock block{.rows = {}, .end_document = first_document, .counts = {}};
  Counts& counts = block.counts;
  std::vector<Sequence> sequences;
  auto has_room = [&] {
    const int64_t rows = options_.packing ? counts.positions / options_.length
                                          : static_cast<int64_t>(sequences.size());
    return rows < kBlockRows && counts.documents < kBlockDocuments;
  };
  while (block.end_document < file_->document_count() && has_room()) {
    const TokenFile::Range document = file_->document(block.end_document++);
    ++counts.documents;
    if (document.count > options_.length + 1) ++counts.too_long;
    for (const Sequence& sequence : sequences_of(document)) {
      if (!is_trained(sequence)) {
        ++counts.untrained;
        continue;
      }
      counts.positions += sequence.count - 1;
      sequences.push_back(sequence);
    }
  }
  if (options_.packing) {
    block.rows = packed(std::move(sequences), options_.length);
  } else {
    for (const Sequence& sequence : sequences) block.rows.push_back({sequence});
  }
  return block;
}

std::vector<DocumentRows::Sequence> DocumentRows::sequences_of(TokenFile::Range document) const {
  const int64_t most = options_.length + 1;
  if (document.count <= most) return {document};
  switch (options_.excess_length) {
    case ExcessLength::truncate:
      return {{document.first, most}};
    case ExcessLength::skip:
      return {};
    case ExcessLength::split:
      break;
  }
  std::vector<Sequence> sequences;
  for (int64_t begin = 0; begin + 1 < document.count; begin += options_.length)
    sequences.push_back({document.first + begin, std::min(most, document.count - begin)});
  return sequences;
}

bool DocumentRows::is_trained(Sequence sequence) const {
  if (file_->loss_mask() == LossMask::absent) return sequence.count > 1;
  std::vector<uint8_t> carries_loss(static_cast<size_t>(sequence.count - 1));
  file_->read_loss_mask(sequence.first + 1, carries_loss);
  return std::ranges::find(carries_loss, 1) != carries_loss.end();
}

}  // namespace longshore::data
