// DocumentRows makes rows of whole documents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/data/rows/exchange_answers.h"
#include "longshore/data/rows/held_out.h"
#include "longshore/data/rows/row_images.h"
#include "longshore/data/rows/rows.h"
#include "longshore/data/rows/token_file.h"

namespace longshore::data {

// What becomes of a document of more than T + 1 tokens, or a pair of more than T positions. With
// images it is left out, but where it is truncated behind its images' tokens.
enum class ExcessLength {
  truncate,  // its first T + 1 are taken; of a pair the longer answer is cut first
  split,     // cut into sequences as WindowRows cuts, each with its own positions and segment; no
             // pair can be
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
  bool packing = false;  // several units in a row, as they fit; otherwise one
  ExcessLength excess_length = ExcessLength::truncate;
  std::optional<RowImages> images = std::nullopt;  // of a model that reads them
  DocumentChoice choice = {};
};

// A document of n tokens takes n - 1 positions, since nothing is predicted from its last. A row
// holds its documents as segments that do not see each other, each with positions from 0.
//
// What stands in one row is a unit: a document, or a pair of answers in a file that has pairs, the
// chosen one first. The p-th pair of a row, from 0, is its segments 2p + 1 and 2p + 2, of which one
// may not be there. A pair that is too long is cut at the ends of its answers: both at the largest
// length with which it fits, so the longer one first. It is left out as a whole where an answer
// that is there then has nothing to learn. See exchange_answers() for Answers::of_others.
//
// Units are packed by best_fit() in blocks of some 64 rows. Only where blocks begin is remembered,
// and a block is packed again for each row that is read, so memory hardly grows with the dataset.
// Every unit is in one row.
//
// Where the file has TokenColumns, a row has also those of its targets that the batch has by name,
// of each as many of the first values as the batch takes of a position.
//
// With images, a row has also kImagePlaces, kBlocks and kPixelValues, as far as its batch has them.
// Images are opened and decoded when a row is read that has kPixelValues. A document with more
// images than a row has slots is left out, and no row is packed with more.
class DocumentRows : public Rows {
 public:
  struct Counts {
    int64_t units = 0;            // documents, or pairs, that are taken
    int64_t too_long = 0;         // of these, longer than a row
    int64_t images_cut = 0;       // of these, left out: truncation or a split would cut images
    int64_t too_many_images = 0;  // units left out for that
    int64_t untrained = 0;        // sequences, or pairs, left out: no target carries loss
    int64_t one_sided = 0;        // pairs in rows of which one answer is not there
    int64_t positions = 0;        // that are no padding
    int64_t images = 0;           // in rows

    void add(const Counts& others);
  };

  // Throws a DataError, without the file's name, when that does not know its documents, and where
  // it has images that nobody reads; a NoRowsError where no row comes of them; a ConfigError where
  // pairs would be split.
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
    int32_t place = 0;  // of its unit's segments, from 0
  };
  // Those that are there.
  struct Unit {
    std::vector<Sequence> sequences = {};
    int64_t positions = 0, images = 0;

    void add(const Sequence& sequence);
  };
  using UnitsOfRow = std::vector<Unit>;
  struct Block {
    int64_t first_document, first_row;
  };
  struct PackedBlock {
    std::vector<UnitsOfRow> rows;
    int64_t end_document;
    Counts counts;
  };

  // How many documents are a unit.
  int64_t together() const { return file_->has_pairs() ? 2 : 1; }
  PackedBlock pack(int64_t first_document) const;
  std::vector<UnitsOfRow> packed(std::vector<Unit> units) const;
  std::vector<Unit> units_of(int64_t first_document, Counts& counts) const;
  Unit unit_at(int64_t first_document) const;
  int64_t longest_fitting(const Unit& unit) const;
  Unit truncated(const Unit& unit) const;
  std::vector<Unit> split(const Sequence& document) const;
  bool cuts_images(const Unit& unit) const;
  int64_t least_rows(const Counts& counts, int64_t units) const;
  std::vector<TokenSequence> read_sequences(const UnitsOfRow& row) const;
  void put_columns(const Row& into, int64_t at, const TokenSequence& sequence) const;
  void put_images(RowImageWriter& writer, int64_t at, const TokenSequence& sequence) const;
  void write_images(const UnitsOfRow& row, RowImageWriter& writer) const;
  bool is_trained(const Sequence& sequence) const;
  std::string nothing_to_train_on() const;

  std::shared_ptr<const TokenFile> file_;
  DocumentRowsOptions options_;
  std::vector<Block> blocks_;
  int64_t count_ = 0;
  Counts counts_;
};

}  // namespace longshore::data
