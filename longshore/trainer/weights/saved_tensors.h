// SavedTensors are the tensors that files hold for a layout's parameters: each a parameter, several
// of them as sections of one, or a part of one, as an expert's matrix is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/pieces.h"
#include "longshore/offload/lowering/parameter_layout.h"

namespace longshore::trainer {

// Elements of a parameter's tensor_shape() that follow each other. In the saved tensor they lie in
// runs, from one period of it to the next.
struct SavedPart {
  const offload::Parameter* parameter = nullptr;
  int64_t first = 0, count = 0;
  int64_t run = 0, offset = 0;  // within a period
  int64_t step = 1;             // from one element of a run to the next
};

struct SavedTensor {
  std::string name;
  models::Shape shape;
  std::vector<SavedPart> parts;  // in the order in which they take turns
  int64_t period = 0;            // elements; the runs of all parts together

  // take(values) for all elements in their order, at most about `most` at a time.
  // read(parameter, first, count) gives values of a parameter.
  template <class Read, class Take>
  void for_each_piece(int64_t most, Read read, Take take) const {
    const int64_t periods = shape.count() / period;
    longshore::for_each_piece(
        periods, std::max<int64_t>(1, most / period), [&](int64_t first, int64_t count) {
          if (parts.size() > 1 && period <= most) return take(in_turns(first, count, read));
          // One after the other, or together those between whose elements there are others.
          for (auto part = parts.begin(); part != parts.end(); part += part->step)
            longshore::for_each_piece(count * part->run, std::max<int64_t>(1, most / part->step),
                                      [&](int64_t from, int64_t values) {
                                        take(woven(part, first * part->run + from, values, read));
                                      });
        });
  }

 private:
  template <class Read>
  std::vector<float> in_turns(int64_t first, int64_t count, Read read) const {
    std::vector<float> values(static_cast<size_t>(count * period));
    for (const SavedPart& part : parts) {
      const std::vector<float> own =
          read(*part.parameter, part.first + first * part.run, count * part.run);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = 0; j < part.run; ++j)
          values[i * period + part.offset + j * part.step] = own[i * part.run + j];
    }
    return values;
  }

  // Of as many parts from that one on as its step.
  template <class Read>
  static std::vector<float> woven(std::vector<SavedPart>::const_iterator part, int64_t first,
                                  int64_t count, Read read) {
    const int64_t step = part->step;
    if (step == 1) return read(*part->parameter, part->first + first, count);
    std::vector<float> values(static_cast<size_t>(count * step));
    for (int64_t i = 0; i < step; ++i, ++part) {
      const std::vector<float> own = read(*part->parameter, part->first + first, count);
      for (int64_t j = 0; j < count; ++j) values[j * step + i] = own[j];
    }
    return values;
  }
};

// Which parameters: those that an adapter's files have, or those of the model that it is for. What
// trains beside an adapter is among both.
enum class SavedIn : uint8_t { model, adapter };

// Elements of a saved tensor, `step` from one to the next.
struct SavedRun {
  const SavedTensor& tensor;
  int64_t first = 0, step = 1;
};

class SavedTensors {
 public:
  // `layout` outlives it. Throws InternalError where the parts of a tensor do not fit together.
  SavedTensors(const offload::ParameterLayout& layout, SavedIn in);

  // In the order of the layout, a tensor where its first part is.
  const std::vector<SavedTensor>& all() const { return tensors_; }
  const SavedTensor* find(std::string_view name) const;  // nullptr: none of that name

  // f(run, some of `values`) for each run that has some of the parameter's elements from `first`
  // on, which `values` are to be.
  template <class F>
  void for_each_run(const offload::Parameter& parameter, int64_t first, std::span<float> values,
                    F f) const {
    while (!values.empty()) {
      const auto [run, most] = run_at(parameter, first);
      const auto count = static_cast<size_t>(std::min(std::ssize(values), most));
      f(run, values.first(count));
      values = values.subspan(count);
      first += static_cast<int64_t>(count);
    }
  }

 private:
  struct RunAt {
    SavedRun run;
    int64_t count;  // of its elements
  };
  // The run that begins with that element of the parameter.
  RunAt run_at(const offload::Parameter& parameter, int64_t element) const;

  std::vector<SavedTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace longshore::trainer
