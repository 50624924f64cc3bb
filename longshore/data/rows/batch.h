// A micro-batch: the values that a model reads of each row, by name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "longshore/base/bfloat16.h"

namespace longshore::data {

// What text gives of each position: its token, the token after it or kIgnoredTarget, its number
// within its sequence, and the number of that sequence in the row, from 1, or kPadding.
inline constexpr const char *kTokens = "tokens", *kTargets = "targets", *kPositions = "positions",
                            *kSegments = "segments";
// As the targets, but of tokens that carry no loss too: the token after each of a sequence.
inline constexpr const char* kNextTokens = "next_tokens";
// What images give, of a model that reads them, in N slots for each row and P patches for each: the
// pixels of each patch [N,P,3pp], see to_patches(); the places of each image's R tokens among all
// positions of the batch [N,R], or kNoPlace in a slot that is empty; and of each position the
// number of the block within which positions see each other both ways, or 0.
inline constexpr const char *kPixelValues = "pixel_values", *kImagePlaces = "image_places",
                            *kBlocks = "blocks";
// What a teacher says of each target's position, K of each: the most likely tokens, or -1 where it
// says nothing, and their log-probabilities.
inline constexpr const char *kTeacherTokens = "teacher_tokens",
                            *kTeacherLogProbs = "teacher_log_probs";
// What rollouts have of each target, floats [T] of a row: its advantage, and its log-probability by
// the policy that drew it, and by a reference.
inline constexpr const char *kAdvantages = "advantages", *kOldLogProbs = "old_log_probs",
                            *kReferenceLogProbs = "reference_log_probs";
// Log-probabilities of files are no less and, but for rounding, no more than 0: sums of them are
// finite.
inline constexpr float kLeastLogProb = -1e4F, kMostLogProb = 1e-3F;
// Of each row one: its number among all rows of a run, in 32 bits.
inline constexpr const char* kRowNumbers = "row_numbers";
constexpr int32_t kNoPlace = -1;
// The target of a position that is not trained.
constexpr int32_t kIgnoredTarget = -1;
// The segment of a position that holds no token of a dataset.
constexpr int32_t kPadding = 0;

// What a batch counts, and the mean of a loss is over: its targets that are trained; or, of pairs
// of answers, where the p-th pair of a row is its segments 2p + 1 and 2p + 2, the pairs of which
// both answers have such targets, or the answers that have.
enum class Counted : uint8_t { targets, pairs, answers };

// What follows the prompt of each sequence of a row: its own answer, or that of another prompt.
enum class Answers : uint8_t { own, of_others };

struct BatchShape {
  int64_t rows = 0;    // B
  int64_t length = 0;  // T
};

enum class Element : uint8_t { int32, float32, bfloat16 };

// An input of a model, with its values for one row, and what they are where a row holds nothing.
struct BatchInput {
  std::string name;
  Element element = Element::int32;
  int64_t per_row = 0;  // values: T where there is one for each position
  int32_t padding = 0;  // the value; where it counts, the first of value, value + 1, ...
  bool counts = false;
};

// What a model reads of a micro-batch. A shape by itself is that of a model of text.
struct BatchSchema {
  BatchShape shape;
  std::vector<BatchInput> inputs;
  Counted counted = Counted::targets;
  Answers answers = Answers::own;

  BatchSchema(BatchShape shape);
  BatchSchema(int64_t rows, int64_t length) : BatchSchema(BatchShape{rows, length}) {}
  BatchSchema(BatchShape shape, std::vector<BatchInput> inputs)
      : shape(shape), inputs(std::move(inputs)) {}
};

struct Batch {
  // Row-major.
  using Values = std::variant<std::vector<int32_t>, std::vector<float>, std::vector<bfloat16>>;

  BatchShape shape;
  std::map<std::string, Values> inputs = {};
  int64_t total_weights = 0;   // how many there are of what the schema counts
  int64_t chosen_targets = 0;  // see count_weights()

  bool has(const std::string& name) const { return inputs.contains(name); }
  // Values of int32. Throws InternalError where there are others; where there are none, the first
  // makes room for them and the second throws.
  std::vector<int32_t>& operator[](const std::string& name);
  const std::vector<int32_t>& operator[](const std::string& name) const;
};

// Of the values of one batch.
int64_t bytes(const BatchSchema& schema);

// Rows of padding.
Batch padding(const BatchSchema& schema);

// Counts total_weights of a batch whose rows are there. Where these are pairs or answers, also
// chosen_targets: those of the chosen answers, the segments of odd numbers, that are trained; or
// where there is kNextTokens all their tokens that are predicted.
void count_weights(Batch& batch, Counted counted);

// How many tokens of an answer with its prompt are the prompt's: those before the first that
// carries loss. Of each token `carries_loss` has 1 or 0.
int64_t prompt_length(std::span<const uint8_t> carries_loss);

// One row of a batch.
class Row {
 public:
  Row(Batch& batch, int64_t number, Answers answers = Answers::own)
      : batch_(batch), number_(number), answers_(answers) {}

  int64_t number() const { return number_; }
  Answers answers() const { return answers_; }
  bool has(const std::string& name) const { return batch_.has(name); }

  // How many values a row has of an input; 0 where the model does not read it.
  int64_t per_row(const std::string& name) const;

  // The row's values of an input; none where the model does not read it. Throws InternalError where
  // they are not int32.
  std::span<int32_t> operator[](const std::string& name) const;
  // Writes floating-point values of an input from `at` on, rounded to nearest where it has
  // bfloat16; nothing where the model does not read it. Throws InternalError where its values are
  // int32.
  void write(const std::string& name, int64_t at, std::span<const float> values) const;

  // Puts a sequence of tokens at positions [at, at + sequence.size() - 1): its last token is a
  // target only, its first an input only. `carries_loss` has 1 or 0 for each token.
  void put(int64_t at, int32_t segment, std::span<const int32_t> sequence,
           std::span<const uint8_t> carries_loss) const;

 private:
  template <class T>
  std::span<T> part(std::vector<T>& values) const;

  Batch& batch_;
  int64_t number_;
  Answers answers_;
};

}  // namespace longshore::data
