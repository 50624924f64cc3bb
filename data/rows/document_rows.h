// DocumentRows makes rows of whole documents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/rows/rows.h"
#include "data/rows/token_file.h"

namespace longshore::data {

// What becomes of a document of more than T + 1 tokens.
enum class ExcessLength {
  truncate,  // its first T + 1 are taken
  split,     // cut into sequences as WindowRows cuts, each with its own positions and segment
  skip       // it is left out
};

struct DocumentRowsOptions {
  int64_t length = 0;    // T
  bool packing = false;  // several documents in a row, as they fit; otherwise one
  ExcessLength excess_length = ExcessLength::truncate;
};

// A document of n tokens takes n - 1 positions, since nothing is predicted from its last. A row
// holds its documents as segments that do not see each other, each with positions from 0.
//
// Documents are packed in blocks of some 64 rows, the longest first, each into the row where the
// least is left over (best-fit decreasing; Krell et al. 2021, arXiv 2107.02027). Only where blocks
// begin is remembered, and a block is packed again for each row that is read, so memory hardly
// grows with the dataset. Every document is in one row.
class DocumentRows : public Rows {
 public:
  struct Counts {
    int64_t documents = 0;
    int64_t too_long = 0;   // of more than T + 1 tokens
    int64_t untrained = 0;  // sequences left out: none of their targets carries loss
    int64_t positions = 0;  // that are no padding
  };

  // Throws a DataError, without the file's name, when that does not know its documents or no row
  // comes of them.
  DocumentRows(std::shared_ptr<const TokenFile> file, const DocumentRowsOptions& options);

  int64_t count() const override { return count_; }
  void read(int64_t index, const Row& into) const override;

  const Counts& counts() const { return counts_; }

 private:
  // Some tokens of a document, as a row takes them: count - 1 positions.
  using Sequence = TokenFile::Range;
  struct Block {
    int64_t first_document, first_row;
  };
  struct PackedBlock {
    std::vector<std::vector<Sequence>> rows;
    int64_t end_document;
    Counts counts;
  };

  PackedBlock pack(int64_t first_document) const;
  std::vector<Sequence> sequences_of(TokenFile::Range document) const;
  bool is_trained(Sequence sequence) const;

  std::shared_ptr<const TokenFile> file_;
  DocumentRowsOptions options_;
  std::vector<Block> blocks_;
  int64_t count_ = 0;
  Counts counts_;
};

}  // namespace longshore::data
