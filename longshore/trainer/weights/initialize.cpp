#include "longshore/trainer/weights/initialize.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/bfloat16.h"
#include "longshore/base/philox.h"
#include "longshore/base/progress.h"
#include "longshore/trainer/weights/normal_numbers.h"
#include "longshore/trainer/weights/read_floats.h"
#include "longshore/trainer/weights/row_norms.h"

namespace longshore::trainer {
namespace {

using offload::Bucket;
using offload::Copy;
using offload::Parameter;

// In [-bound, bound], as normal_numbers() gives its own.
void uniform_numbers(uint64_t seed, uint32_t sequence, int64_t first, double bound,
                     std::span<float> values) {
  const int64_t end = first + std::ssize(values);
  for (int64_t block = first / 4; 4 * block < end; ++block) {
    const PhiloxBlock random =
        philox(seed, RandomUse::initial_weights, sequence, static_cast<uint64_t>(block));
    for (int64_t i = std::max(first, 4 * block); i < std::min(end, 4 * block + 4); ++i)
      values[i - first] =
          static_cast<float>(((random[i - 4 * block] + 0.5) / 2147483648.0 - 1) * bound);
  }
}

bool is_weight(Copy copy) { return copy == Copy::compute || copy == Copy::master; }

std::vector<Copy> written_copies(const Bucket& bucket, Copies copies) {
  if (copies == Copies::compute) return {Copy::compute};
  std::vector<Copy> written = bucket.copies();
  std::erase(written, Copy::gradient);
  return written;
}

// A part of a bucket: elements of a parameter, or of the room between two; or a matrix of a
// quantized parameter, of which this device may hold a part.
struct Piece {
  const Parameter* parameter;
  int64_t first;  // in the bucket
  int64_t count;
};

bool is_quantized(const Bucket& bucket) { return bucket.dtype == models::Dtype::uint8; }

std::vector<Piece> matrices(const Bucket& bucket) {
  std::vector<Piece> list;
  for (const Parameter& parameter : bucket.parameters) {
    const int64_t count = matrices_of(parameter), bytes = parameter.type.shape.count() / count;
    for (int64_t i = 0; i < count; ++i) {
      const Piece piece{&parameter, parameter.offset + i * bytes, bytes};
      if (offload::common(bucket.held, {piece.first, piece.count}).count > 0) list.push_back(piece);
    }
  }
  return list;
}

// What this device holds of a bucket.
std::vector<Piece> pieces(const Bucket& bucket) {
  if (is_quantized(bucket)) return matrices(bucket);
  std::vector<Piece> list;
  int64_t done = bucket.held.first;
  auto add_until = [&](const Parameter* parameter, int64_t end) {
    for (end = std::min(end, bucket.held.end()); done < end; done += list.back().count)
      list.push_back({parameter, done, std::min(kWeightPieceElements, end - done)});
  };
  for (const Parameter& parameter : bucket.parameters) {
    add_until(nullptr, parameter.offset);
    add_until(&parameter, parameter.offset + parameter.type.shape.count());
  }
  add_until(nullptr, bucket.held.end());
  return list;
}

// Values of pieces, in what a thread keeps for them.
class PieceWriter {
 public:
  PieceWriter(const FillParameter& fill, const CopyMatrix& copy, const offload::DeviceMesh& mesh,
              Copies copies, offload::Arguments& arguments)
      : fill_(fill), copy_(copy), mesh_(mesh), copies_(copies), arguments_(arguments) {}

  void write(const Bucket& bucket, const Piece& piece) {
    if (is_quantized(bucket)) return write_matrix(bucket, piece);
    values_.resize(static_cast<size_t>(piece.count));
    if (piece.parameter)
      fill(*piece.parameter, piece.first - piece.parameter->offset);
    else
      std::ranges::fill(values_, 0.f);
    for (Copy copy : written_copies(bucket, copies_)) {
      if (!is_weight(copy)) continue;
      const bool is_wide = dtype(bucket, copy) == models::Dtype::float32;
      if (!is_wide) {
        narrow_.resize(values_.size());
        std::ranges::transform(values_, narrow_.begin(),
                               [](float value) { return to_bfloat16(value); });
      }
      const int64_t size = models::size_bytes(dtype(bucket, copy));
      const offload::ElementRange part = bucket.part(copy);
      const auto [first, count] = offload::common(part, {piece.first, piece.count});
      const int64_t skipped = first - piece.first;
      if (count > 0)
        arguments_.write_part(
            argument_name(bucket, copy), (first - part.first) * size,
            is_wide ? static_cast<const void*>(values_.data() + skipped) : narrow_.data() + skipped,
            count * size);
    }
  }

 private:
  void write_matrix(const Bucket& bucket, const Piece& piece) {
    const Parameter& parameter = *piece.parameter;
    quantize_parameter(
        parameter, rows_of_tensor(bucket, parameter),
        (piece.first - parameter.offset) / piece.count, fill_,
        [&](int64_t offset, std::span<const std::byte> from) {
          const int64_t at = parameter.offset + offset;
          const auto [first, count] = offload::common(bucket.held, {at, std::ssize(from)});
          if (count > 0)
            arguments_.write_part(argument_name(bucket, Copy::compute), first - bucket.held.first,
                                  from.data() + (first - at), count);
        },
        copy_);
  }

  // With what this device's part has from element `first` on.
  void fill(const Parameter& parameter, int64_t first) {
    const std::optional<models::Split>& split = parameter.weight.split;
    const int64_t part = split ? mesh_.along(split->axis).rank : 0;
    for (const models::SplitRun& run :
         models::SplitRuns(parameter.type.shape, split).of_part(part, first, std::ssize(values_)))
      fill_(parameter, run.in_tensor,
            std::span(values_).subspan(static_cast<size_t>(run.in_part - first),
                                       static_cast<size_t>(run.count)));
  }

  const FillParameter& fill_;
  const CopyMatrix& copy_;
  const offload::DeviceMesh& mesh_;
  Copies copies_;
  offload::Arguments& arguments_;
  std::vector<float> values_;
  std::vector<bfloat16> narrow_;
};

}  // namespace

void initial_values(const Parameter& parameter, uint64_t seed, int64_t first,
                    std::span<float> values) {
  const auto [kind, scale] = parameter.weight.init;
  using enum models::Init::Kind;
  if (kind == ones || kind == zeros) {
    std::ranges::fill(values, kind == ones ? 1.f : 0.f);
    return;
  }
  // Parameters are told apart by name, not by their place.
  const uint32_t sequence = random_sequence(parameter.name);
  if (kind == uniform)
    uniform_numbers(seed, sequence, first, scale, values);
  else
    normal_numbers(seed, sequence, first, scale, values);
}

void write_parameters(const offload::ParameterLayout& layout, const FillParameter& fill,
                      offload::Arguments& arguments, Copies copies, const CopyMatrix& copy,
                      const char* what) {
  // Between the parts of quantized parameters there is room that nothing else fills.
  const auto is_zeroed = [](const Bucket& bucket, Copy copy) {
    return !is_weight(copy) || is_quantized(bucket);
  };
  std::vector<std::pair<const Bucket*, Piece>> work;
  int64_t elements = 0;
  for (const Bucket& bucket : layout.buckets) {
    for (const Piece& piece : pieces(bucket)) {
      work.push_back({&bucket, piece});
      elements += piece.count;
    }
    for (Copy copy : written_copies(bucket, copies))
      if (is_zeroed(bucket, copy)) elements += bucket.part(copy).count;
  }
  Progress progress(what, elements);
  for (const Bucket& bucket : layout.buckets)
    for (Copy copy : written_copies(bucket, copies)) {
      const std::string name = argument_name(bucket, copy);
      arguments.at(name, bytes(bucket, copy), bucket.homes.of(copy), category(copy));
      if (!is_zeroed(bucket, copy)) continue;
      arguments.write_zeros(name);
      progress.add(bucket.part(copy).count);
    }
  std::exception_ptr failure;
#pragma omp parallel
  {
    PieceWriter writer(fill, copy, layout.mesh, copies, arguments);
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < work.size(); ++i) try {
        writer.write(*work[i].first, work[i].second);
        progress.add(work[i].second.count);
      } catch (...) {
#pragma omp critical(write_parameters_failure)
        if (!failure) failure = std::current_exception();
      }
  }
  if (failure) std::rethrow_exception(failure);
}

void initialize(const offload::ParameterLayout& layout, uint64_t seed,
                offload::Arguments& arguments) {
  const RowNorms norms(layout);
  FillParameter fill;
  fill = [&](const Parameter& parameter, int64_t first, std::span<float> values) {
    if (parameter.weight.init.kind == models::Init::Kind::row_norms)
      return norms.read(parameter, first, fill, values);
    const auto [own, count] =
        offload::common({first, std::ssize(values)}, {0, parameter.tensor_shape().count()});
    // What lies beyond is another's, which no parameter's first values depend on.
    if (count < std::ssize(values)) std::ranges::fill(values, 0.f);
    if (count > 0)
      initial_values(parameter, seed, own,
                     values.subspan(static_cast<size_t>(own - first), static_cast<size_t>(count)));
  };
  write_parameters(layout, fill, arguments, Copies::all, nullptr, "initializing weights");
}

}  // namespace longshore::trainer
