// DocumentRows makes rows of whole documents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/rows/held_out.h"
#include "data/rows/row_images.h"
#include "data/rows/rows.h"
#include "data/rows/token_file.h"

namespace longshore::data {

// What becomes of a document of more than T + 1 tokens. With images it is left out, but where it is
// truncated behind its images' tokens.
enum class ExcessLength {
  truncate,  // its first T + 1 are taken
  split,     // cut into sequences as WindowRows cuts, each with its own positions and segment
  skip       // it is left out
};

// Which documents are taken: all, or those that are held out, or all others.
struct DocumentChoice {
  std::shared_ptr<const HeldOutDocuments> held_out = {};
  bool takes_held_out = false;

  bool takes(int64_t document) const {
    return !held_out || held_out->contains(document) == takes_held_out;
  }
};

struct DocumentRowsOptions {
  int64_t length = 0;    // T
  bool packing = false;  // several documents in a row, as they fit; otherwise one
  ExcessLength excess_length = ExcessLength::truncate;
  std::optional<RowImages> images = std::nullopt;  // of a model that reads them
  DocumentChoice choice = {};
};

// A document of n tokens takes n - 1 positions, since nothing is predicted from its last. A row
// holds its documents as segments that do not see each other, each with positions from 0.
//
// Documents are packed by best_fit() in blocks of some 64 rows. Only where blocks begin is
// remembered, and a block is packed again for each row that is read, so memory hardly grows with
// the dataset. Every document is in one row.
//
// With images, a row has also kImagePlaces, kBlocks and kPixelValues, as far as its batch has them.
// Images are opened and decoded when a row is read that has kPixelValues. A document with more
// images than a row has slots is left out, and no row is packed with more.
class DocumentRows : public Rows {
 public:
  struct Counts {
    int64_t documents = 0;   // that are taken
    int64_t too_long = 0;    // of more than T + 1 tokens
    int64_t images_cut = 0;  // of these, left out, since truncation or a split would cut images
    int64_t too_many_images = 0;  // documents left out for that
    int64_t untrained = 0;        // sequences left out: none of their targets carries loss
    int64_t positions = 0;        // that are no padding
    int64_t images = 0;           // in rows
  };

  // Throws a DataError, without the file's name, when that does not know its documents or no row
  // comes of them, and where it has images that nobody reads.
  DocumentRows(std::shared_ptr<const TokenFile> file, const DocumentRowsOptions& options);

  int64_t count() const override { return count_; }
  // Throws a DataError where an image is not what it was; see read_image().
  void read(int64_t index, const Row& into) const override;

  const Counts& counts() const { return counts_; }

 private:
  // Some tokens of a document, as a row takes them: count - 1 positions; with its images, if all
  // their tokens are among them.
  struct Sequence : TokenFile::Range {
    ImageTable::Range images = {};
  };
  struct Block {
    int64_t first_document, first_row;
  };
  struct PackedBlock {
    std::vector<std::vector<Sequence>> rows;
    int64_t end_document;
    Counts counts;
  };

  PackedBlock pack(int64_t first_document) const;
  std::vector<std::vector<Sequence>> packed(const std::vector<Sequence>& sequences) const;
  std::vector<Sequence> sequences_of(int64_t document, Counts& counts) const;
  bool cuts_images(const Sequence& document) const;
  int64_t least_rows(const Counts& counts, int64_t sequences) const;
  void put_images(RowImageWriter& writer, int64_t at, const Sequence& sequence,
                  std::span<const int32_t> tokens, std::span<const uint8_t> carries_loss) const;
  void write_images(const std::vector<Sequence>& row, RowImageWriter& writer) const;
  bool is_trained(const Sequence& sequence) const;

  std::shared_ptr<const TokenFile> file_;
  DocumentRowsOptions options_;
  std::vector<Block> blocks_;
  int64_t count_ = 0;
  Counts counts_;
};

}  // namespace longshore::data
