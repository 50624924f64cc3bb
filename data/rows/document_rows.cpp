#include "data/rows/document_rows.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "data/rows/best_fit.h"
#include "data/rows/referenced_image.h"

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
  for (int64_t document = 0; document < file_->document_count();) {
    const PackedBlock block = pack(document);
    blocks_.push_back({document, count_});
    count_ += static_cast<int64_t>(block.rows.size());
    document = block.end_document;
    counts_.documents += block.counts.documents;
    counts_.too_long += block.counts.too_long;
    counts_.images_cut += block.counts.images_cut;
    counts_.too_many_images += block.counts.too_many_images;
    counts_.untrained += block.counts.untrained;
    counts_.positions += block.counts.positions;
    counts_.images += block.counts.images;
  }
  if (count_ == 0)
    throw DataError("found nothing to train on in " + plural(counts_.documents, "document") + ": " +
                    std::to_string(counts_.too_long) + " with more than the " +
                    std::to_string(options.length + 1) + " tokens that a row of " +
                    std::to_string(options.length) + " takes, " +
                    (counts_.too_many_images == 0
                         ? ""
                         : std::to_string(counts_.too_many_images) + " with more than the " +
                               std::to_string(options.images->images_per_row) +
                               " images of a row (max_num_images_per_example), ") +
                    std::to_string(counts_.untrained) + " with nothing to learn in it");
}

void DocumentRows::read(int64_t index, const Row& into) const {
  const auto after = std::ranges::upper_bound(blocks_, index, {}, &Block::first_row);
  const Block& block = *(after - 1);
  const PackedBlock packed = pack(block.first_document);
  const std::vector<Sequence>& row = packed.rows[static_cast<size_t>(index - block.first_row)];
  std::optional<RowImageWriter> images;
  if (options_.images) images.emplace(*options_.images, into, options_.length);
  std::vector<int32_t> tokens;
  std::vector<uint8_t> carries_loss;
  int64_t at = 0;
  int32_t segment = kPadding;
  for (const Sequence& sequence : row) {
    tokens.resize(static_cast<size_t>(sequence.count));
    carries_loss.resize(tokens.size());
    file_->read(sequence.first, tokens);
    file_->read_loss_mask(sequence.first, carries_loss);
    into.put(at, ++segment, tokens, carries_loss);
    if (images) put_images(*images, at, sequence, tokens, carries_loss);
    at += sequence.count - 1;
  }
  if (images && into.has(kPixelValues)) write_images(row, *images);
}

void DocumentRows::put_images(RowImageWriter& writer, int64_t at, const Sequence& sequence,
                              std::span<const int32_t> tokens,
                              std::span<const uint8_t> carries_loss) const {
  try {
    writer.put(at, tokens, carries_loss, sequence.images.count);
  } catch (const DataError& error) {
    throw DataError(path_text(file_->path()) + ": from token " + std::to_string(sequence.first) +
                    " on: " + error.what());
  }
}

void DocumentRows::write_images(const std::vector<Sequence>& row, RowImageWriter& writer) const {
  const RowImages& images = *options_.images;
  std::vector<float> planes(static_cast<size_t>(images.pixels.value_count()));
  for (const Sequence& sequence : row)
    for (int64_t i = 0; i < sequence.images.count; ++i) {
      const Image image = read_image(
          *file_, sequence.images.first + i,
          {.max_pixels = images.max_pixels, .transparent_color = images.transparent_color});
      write_pixel_values(image, images.pixels, planes);
      writer.write_pixels(planes);
    }
}

// How many rows are needed for what is counted, at least.
int64_t DocumentRows::least_rows(const Counts& counts, int64_t sequences) const {
  if (!options_.packing) return sequences;
  const int64_t by_length = counts.positions / options_.length;
  return options_.images ? std::max(by_length, counts.images / options_.images->images_per_row)
                         : by_length;
}

DocumentRows::PackedBlock DocumentRows::pack(int64_t first_document) const {
  PackedBlock block{.rows = {}, .end_document = first_document, .counts = {}};
  Counts& counts = block.counts;
  std::vector<Sequence> sequences;
  auto has_room = [&] {
    return least_rows(counts, std::ssize(sequences)) < kBlockRows &&
           block.end_document - first_document < kBlockDocuments;
  };
  while (block.end_document < file_->document_count() && has_room()) {
    const int64_t document = block.end_document++;
    if (!options_.choice.takes(document)) continue;
    ++counts.documents;
    for (const Sequence& sequence : sequences_of(document, counts)) {
      if (!is_trained(sequence)) {
        ++counts.untrained;
        continue;
      }
      counts.positions += sequence.count - 1;
      counts.images += sequence.images.count;
      sequences.push_back(sequence);
    }
  }
  if (options_.packing) {
    block.rows = packed(sequences);
  } else {
    for (const Sequence& sequence : sequences) block.rows.push_back({sequence});
  }
  return block;
}

std::vector<std::vector<DocumentRows::Sequence>> DocumentRows::packed(
    const std::vector<Sequence>& sequences) const {
  std::vector<RowRoom> taken;
  for (const Sequence& sequence : sequences)
    taken.push_back({.positions = sequence.count - 1, .slots = sequence.images.count});
  std::vector<std::vector<Sequence>> rows;
  for (const std::vector<size_t>& row :
       best_fit(taken, {.positions = options_.length,
                       .slots = options_.images ? options_.images->images_per_row : 0})) {
    rows.emplace_back();
    for (const size_t i : row) rows.back().push_back(sequences[i]);
  }
  return rows;
}

// Counts those that are too long or have too many images.
std::vector<DocumentRows::Sequence> DocumentRows::sequences_of(int64_t number,
                                                               Counts& counts) const {
  const int64_t most = options_.length + 1;
  const Sequence document{file_->document(number), file_->images(number)};
  if (options_.images && document.images.count > options_.images->images_per_row) {
    ++counts.too_many_images;
    return {};
  }
  if (document.count <= most) return {document};
  ++counts.too_long;
  if (options_.excess_length == ExcessLength::skip) return {};
  if (document.images.count > 0 && cuts_images(document)) {
    ++counts.images_cut;
    return {};
  }
  if (options_.excess_length == ExcessLength::truncate)
    return {{{document.first, most}, document.images}};
  std::vector<Sequence> sequences;
  for (int64_t begin = 0; begin + 1 < document.count; begin += options_.length)
    sequences.push_back({{document.first + begin, std::min(most, document.count - begin)}});
  return sequences;
}

// Whether what becomes of a document that is too long lacks tokens of its images among its inputs.
bool DocumentRows::cuts_images(const Sequence& document) const {
  if (options_.excess_length == ExcessLength::split) return true;
  std::vector<int32_t> rest(static_cast<size_t>(document.count - options_.length));
  file_->read(document.first + options_.length, rest);
  return std::ranges::find(rest, options_.images->text.image_token) != rest.end();
}

bool DocumentRows::is_trained(const Sequence& sequence) const {
  if (file_->loss_mask() == LossMask::absent) return sequence.count > 1;
  std::vector<uint8_t> carries_loss(static_cast<size_t>(sequence.count - 1));
  file_->read_loss_mask(sequence.first + 1, carries_loss);
  return std::ranges::find(carries_loss, 1) != carries_loss.end();
}

}  // namespace longshore::data
