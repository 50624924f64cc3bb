// Decoding makes text token by token: plans that run a decoder on the next tokens only, with the
// keys and values of all tokens before in a cache on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "longshore/data/rows/batch.h"
#include "longshore/models/families/decoder.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/execution/executor.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/offload/lowering/staging.h"

namespace longshore::trainer {

// For one text. The plans share the cache, and differ in how many tokens they take at a time.
struct DecodingPlans {
  models::DecoderConfig model;  // of one row
  int64_t capacity = 0;         // the most tokens that the text may have
  struct Run {
    int64_t tokens;
    offload::Plan plan;
  };
  std::vector<Run> runs;  // the most tokens first; the last takes 1

  std::vector<const offload::Plan*> all() const;
};

// `layout` is of a training model with these weights, which are read where they are. Beside a plan
// for single tokens there is one for each of `lengths`, which are at most `capacity`. A model with
// images has one length, that of the prompt with the images of `vision`.
DecodingPlans plan_decoding(models::DecoderConfig model, const offload::ParameterLayout& layout,
                            int64_t capacity, std::span<const int64_t> lengths,
                            const offload::Transfers& transfers, models::Target target);

class Decoding {
 public:
  // All must outlive this.
  Decoding(const DecodingPlans& plans, offload::Backend& backend, offload::Arguments& arguments,
           const offload::Arenas& arenas);

  // Takes the text's next tokens, one or more, in as few runs as the plans allow. Returns the
  // logits [V] of what follows the last. Throws Error, and takes none, where there is no room for
  // all of them.
  std::vector<float> append(std::span<const int32_t> tokens, offload::Ledger& ledger);

  // The same of the text's first tokens, with what else a model with images reads of them: those of
  // its batch inputs that `prompt`, of one row, has, and `blocks`.
  std::vector<float> append_prompt(const data::Batch& prompt, offload::Ledger& ledger);

  // Begins another text in the place of this one.
  void restart() { length_ = 0; }

  int64_t length() const { return length_; }  // of the text so far
  int64_t room() const { return plans_.capacity - length_; }

 private:
  void require_room(int64_t tokens) const;
  std::vector<float> logits() const;
  // The plan of that run, on so many tokens, with what else its model reads of them.
  void run(size_t index, std::span<const int32_t> tokens, const data::Batch& others,
           offload::Ledger& ledger);

  const DecodingPlans& plans_;
  offload::Backend& backend_;
  offload::Arguments& arguments_;
  std::vector<std::unique_ptr<offload::Executable>> executables_;  // of plans_.runs
  int64_t length_ = 0;
};

}  // namespace longshore::trainer
