// The pre-tokenizer of a tokenizer.json: what cuts a normalised text into the pieces that are then
// encoded one by one.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "longshore/data/tokenizers/character_set.h"
#include "longshore/data/tokenizers/split_behavior.h"
#include "longshore/data/tokenizers/split_pattern.h"

namespace longshore::data {

// Cuts at what matches.
struct Split {
  // A regular expression; or a set, of which each character is a match by itself.
  std::variant<std::string, std::span<const CharacterRange>> pattern;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what lies between counts as the matches
};

// Spaces become `replacement`, a character, which is also put before a piece that does not begin
// with it: any, or only the one with which the whole text begins.
struct Metaspace {
  enum class Prepend { never, first, always };
  std::string replacement;
  Prepend prepend = Prepend::always;
  bool split = true;  // a piece begins at each replacement that no other follows
};

// A space is put before each piece that does not begin with one.
struct PrefixSpace {};

using PreTokenizerStep = std::variant<Split, Metaspace, PrefixSpace>;

// Immutable: any number of threads may use it at a time.
class PreTokenizer {
 public:
  // Each step cuts what the one before it left; then come `byte_splits`, which see one character
  // for each byte: that of the byte-level alphabet. Throws a DataError on an expression that
  // SplitPattern does not take.
  PreTokenizer(std::span<const PreTokenizerStep> steps, std::span<const Split> byte_splits);

  // The pieces of `text`, which is valid UTF-8: parts of it, or of what is put into `changed`,
  // which has to outlive them. `is_first`: the whole text begins with it. Throws a DataError where
  // a piece becomes larger than `most_bytes`, and as SplitPattern does.
  std::vector<std::string_view> pieces(std::string_view text, bool is_first, size_t most_bytes,
                                       std::deque<std::string>& changed) const;

 private:
  class Splitter {
   public:
    explicit Splitter(const Split& split);
    void split(std::string_view text, std::vector<std::string_view>& pieces) const;

   private:
    void split_by_set(std::string_view text, std::vector<SplitPart>& parts) const;

    std::optional<SplitPattern> pattern_;
    std::span<const CharacterRange> set_;
    SplitBehavior behavior_;
    bool invert_;
  };
  using Step = std::variant<Splitter, Metaspace, PrefixSpace>;

  void split_bytes(std::string_view piece, std::vector<std::string_view>& smaller) const;

  std::vector<Step> steps_;
  std::vector<Splitter> byte_splitters_;
};

}  // namespace longshore::data
