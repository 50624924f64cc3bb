#include "longshore/data/rows/document_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/data/rows/best_fit.h"
#include "longshore/data/rows/referenced_image.h"

namespace longshore::data {
namespace {

// So many rows that those which stay open at a block's end hardly count, and so few documents that
// packing a block again for one row takes little time.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockDocuments = 1 << 16;

}  // namespace

DocumentRows::DocumentRows(std::shared_ptr<const TokenFile> file,
                           const DocumentRowsOptions& options)
    : file_(std::move(file)), options_(options) {
  if (!file_->has_documents())
    throw DataError(
        "a token file of version 1, which does not know where documents end; expected version 2 or "
        "later. Tokenize the text again.");
  if (file_->image_count() > 0 && !options_.images)
    throw DataError("found " + plural(file_->image_count(), "image") +
                    ", but the model reads none; nearest: use_multimodal=true");
  if (options_.images) check(*options_.images);
  if (file_->has_pairs() && options_.excess_length == ExcessLength::split)
    throw ConfigError(
        "excess_length_strategy: found split, expected truncate or skip, since a pair of answers "
        "must stand in one row; nearest: truncate");
  for (int64_t document = 0; document < file_->document_count();) {
    const PackedBlock block = pack(document);
    blocks_.push_back({document, count_});
    count_ += static_cast<int64_t>(block.rows.size());
    document = block.end_document;
    counts_.add(block.counts);
  }
  if (count_ == 0) throw NoRowsError(nothing_to_train_on());
}

std::string DocumentRows::nothing_to_train_on() const {
  const std::string length = std::to_string(options_.length);
  return "found nothing to train on in " +
         plural(counts_.units, file_->has_pairs() ? "pair" : "document") + ": " +
         std::to_string(counts_.too_long) + " with more than the " +
         (file_->has_pairs() ? length + " positions of a row, "
                             : std::to_string(options_.length + 1) + " tokens that a row of " +
                                   length + " takes, ") +
         (counts_.too_many_images == 0
              ? ""
              : std::to_string(counts_.too_many_images) + " with more than the " +
                    std::to_string(options_.images->images_per_row) +
                    " images of a row (max_num_images_per_example), ") +
         std::to_string(counts_.untrained) + " with nothing to learn in it";
}

void DocumentRows::Counts::add(const Counts& others) {
  units += others.units;
  too_long += others.too_long;
  images_cut += others.images_cut;
  too_many_images += others.too_many_images;
  untrained += others.untrained;
  one_sided += others.one_sided;
  positions += others.positions;
  images += others.images;
}

void DocumentRows::Unit::add(const Sequence& sequence) {
  sequences.push_back(sequence);
  positions += sequence.count - 1;
  images += sequence.images.count;
}

void DocumentRows::read(int64_t index, const Row& into) const {
  const auto after = std::ranges::upper_bound(blocks_, index, {}, &Block::first_row);
  const Block& block = *(after - 1);
  const PackedBlock packed = pack(block.first_document);
  const UnitsOfRow& row = packed.rows[static_cast<size_t>(index - block.first_row)];
  std::vector<TokenSequence> sequences = read_sequences(row);
  if (into.answers() == Answers::of_others) exchange_answers(sequences);
  std::optional<RowImageWriter> images;
  if (options_.images) images.emplace(*options_.images, into, options_.length);
  int64_t at = 0;
  for (const TokenSequence& sequence : sequences) {
    into.put(at, sequence.segment, sequence.tokens, sequence.carries_loss);
    put_columns(into, at, sequence);
    if (images) put_images(*images, at, sequence);
    at += std::ssize(sequence.tokens) - 1;
  }
  if (images && into.has(kPixelValues)) write_images(row, *images);
}

std::vector<TokenSequence> DocumentRows::read_sequences(const UnitsOfRow& row) const {
  std::vector<TokenSequence> sequences;
  int32_t first_segment = kPadding + 1;
  for (const Unit& unit : row) {
    for (const Sequence& sequence : unit.sequences) {
      TokenSequence& read = sequences.emplace_back();
      read.segment = first_segment + sequence.place;
      read.first_token = sequence.first;
      read.image_count = sequence.images.count;
      read.tokens.resize(static_cast<size_t>(sequence.count));
      read.carries_loss.resize(read.tokens.size());
      file_->read(sequence.first, read.tokens);
      file_->read_loss_mask(sequence.first, read.carries_loss);
    }
    first_segment += static_cast<int32_t>(together());
  }
  return sequences;
}

// At a position stands what its target has.
void DocumentRows::put_columns(const Row& into, int64_t at, const TokenSequence& sequence) const {
  for (const TokenColumn& column : file_->columns()) {
    const int64_t width = into.per_row(column.name) / options_.length;
    const auto count = static_cast<size_t>((std::ssize(sequence.tokens) - 1) * width);
    if (count == 0) continue;
    if (column.element == TokenColumn::Element::int32) {
      const std::span<int32_t> values =
          into[column.name].subspan(static_cast<size_t>(at * width), count);
      file_->read_column(column.name, sequence.first_token + 1, width, values);
      if (const auto none = std::ranges::find(values, kIgnoredTarget); none != values.end())
        throw DataError(path_text(file_->path()) + ": corrupt: token " +
                        std::to_string(sequence.first_token + 1 + (none - values.begin()) / width) +
                        " has no " + column.name);
    } else {
      std::vector<float> values(count);
      file_->read_column(column.name, sequence.first_token + 1, width, std::span(values));
      into.write(column.name, at * width, values);
    }
  }
}

void DocumentRows::put_images(RowImageWriter& writer, int64_t at,
                              const TokenSequence& sequence) const {
  try {
    writer.put(at, sequence.tokens, sequence.carries_loss, sequence.image_count);
  } catch (const DataError& error) {
    throw DataError(path_text(file_->path()) + ": from token " +
                    std::to_string(sequence.first_token) + " on: " + error.what());
  }
}

void DocumentRows::write_images(const UnitsOfRow& row, RowImageWriter& writer) const {
  const RowImages& images = *options_.images;
  std::vector<float> planes(static_cast<size_t>(images.pixels.value_count()));
  for (const Unit& unit : row)
    for (const Sequence& sequence : unit.sequences)
      for (int64_t i = 0; i < sequence.images.count; ++i) {
        const Image image = read_image(
            *file_, sequence.images.first + i,
            {.max_pixels = images.max_pixels, .transparent_color = images.transparent_color});
        write_pixel_values(image, images.pixels, planes);
        writer.write_pixels(planes);
      }
}

// How many rows are needed for what is counted, at least.
int64_t DocumentRows::least_rows(const Counts& counts, int64_t units) const {
  if (!options_.packing) return units;
  const int64_t by_length = counts.positions / options_.length;
  return options_.images ? std::max(by_length, counts.images / options_.images->images_per_row)
                         : by_length;
}

DocumentRows::PackedBlock DocumentRows::pack(int64_t first_document) const {
  PackedBlock block{.rows = {}, .end_document = first_document, .counts = {}};
  Counts& counts = block.counts;
  std::vector<Unit> units;
  auto has_room = [&] {
    return least_rows(counts, std::ssize(units)) < kBlockRows &&
           block.end_document - first_document < kBlockDocuments;
  };
  while (block.end_document < file_->document_count() && has_room()) {
    const int64_t document = block.end_document;
    block.end_document += together();
    if (!options_.choice.takes(document)) continue;
    ++counts.units;
    for (Unit& unit : units_of(document, counts)) {
      auto is_learnt = [&](const Sequence& sequence) { return is_trained(sequence); };
      if (unit.sequences.empty() || !std::ranges::all_of(unit.sequences, is_learnt)) {
        ++counts.untrained;
        continue;
      }
      counts.one_sided += std::ssize(unit.sequences) < together();
      counts.positions += unit.positions;
      counts.images += unit.images;
      units.push_back(std::move(unit));
    }
  }
  if (options_.packing) {
    block.rows = packed(std::move(units));
  } else {
    for (Unit& unit : units) block.rows.emplace_back().push_back(std::move(unit));
  }
  return block;
}

std::vector<DocumentRows::UnitsOfRow> DocumentRows::packed(std::vector<Unit> units) const {
  std::vector<RowRoom> taken;
  for (const Unit& unit : units)
    taken.push_back({.positions = unit.positions, .slots = unit.images});
  std::vector<UnitsOfRow> rows;
  for (const std::vector<size_t>& row :
       best_fit(taken, {.positions = options_.length,
                       .slots = options_.images ? options_.images->images_per_row : 0})) {
    rows.emplace_back();
    for (const size_t i : row) rows.back().push_back(std::move(units[i]));
  }
  return rows;
}

// A document of a single token among a pair's is an answer that is not there.
DocumentRows::Unit DocumentRows::unit_at(int64_t first_document) const {
  Unit unit;
  for (int32_t place = 0; place < together(); ++place) {
    const int64_t number = first_document + place;
    const TokenFile::Range document = file_->document(number);
    if (file_->has_pairs() && document.count == 1) continue;
    unit.add({document, file_->images(number), place});
  }
  return unit;
}

// Counts those that are too long or have too many images.
std::vector<DocumentRows::Unit> DocumentRows::units_of(int64_t first_document,
                                                       Counts& counts) const {
  Unit unit = unit_at(first_document);
  if (options_.images && unit.images > options_.images->images_per_row) {
    ++counts.too_many_images;
    return {};
  }
  if (unit.positions <= options_.length) return {std::move(unit)};
  ++counts.too_long;
  if (options_.excess_length == ExcessLength::skip) return {};
  if (unit.images > 0 && cuts_images(unit)) {
    ++counts.images_cut;
    return {};
  }
  return options_.excess_length == ExcessLength::truncate ? std::vector{truncated(unit)}
                                                          : split(unit.sequences[0]);
}

// The most positions of each of its sequences with which it fits into a row.
int64_t DocumentRows::longest_fitting(const Unit& unit) const {
  if (unit.sequences.size() == 1) return options_.length;
  const int64_t shorter = std::min(unit.sequences[0].count, unit.sequences[1].count) - 1;
  return std::max(options_.length / 2, options_.length - shorter);
}

DocumentRows::Unit DocumentRows::truncated(const Unit& unit) const {
  Unit result;
  for (Sequence sequence : unit.sequences) {
    sequence.count = std::min(sequence.count, longest_fitting(unit) + 1);
    result.add(sequence);
  }
  return result;
}

std::vector<DocumentRows::Unit> DocumentRows::split(const Sequence& document) const {
  std::vector<Unit> units;
  for (int64_t begin = 0; begin + 1 < document.count; begin += options_.length)
    units.emplace_back().add(
        {{document.first + begin, std::min(options_.length + 1, document.count - begin)}});
  return units;
}

// Whether what becomes of a unit that is too long lacks tokens of its images among its inputs.
bool DocumentRows::cuts_images(const Unit& unit) const {
  if (options_.excess_length == ExcessLength::split) return true;
  const int64_t kept = longest_fitting(unit);
  return std::ranges::any_of(unit.sequences, [&](const Sequence& sequence) {
    if (sequence.count <= kept + 1) return false;
    std::vector<int32_t> rest(static_cast<size_t>(sequence.count - kept));
    file_->read(sequence.first + kept, rest);
    return std::ranges::find(rest, options_.images->text.image_token) != rest.end();
  });
}

bool DocumentRows::is_trained(const Sequence& sequence) const {
  if (file_->loss_mask() == LossMask::absent) return sequence.count > 1;
  std::vector<uint8_t> carries_loss(static_cast<size_t>(sequence.count - 1));
  file_->read_loss_mask(sequence.first + 1, carries_loss);
  return std::ranges::find(carries_loss, 1) != carries_loss.end();
}

}  // namespace longshore::data
