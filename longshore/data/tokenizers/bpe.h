// Byte-pair encoding: a piece of text becomes symbols, and neighbours are merged by rank.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longshore::data {

struct BpeMerge {
  int32_t left = 0, right = 0, result = 0;  // ids
};

struct BpeModel {
  // What the first symbols of a piece are: its bytes, or its characters.
  enum class Alphabet { bytes, characters };
  Alphabet alphabet = Alphabet::bytes;

  std::vector<std::string> tokens;         // by id, as text has them; "" where text has none
  std::vector<BpeMerge> merges;            // best first; ids of tokens, no pair twice
  std::array<int32_t, 256> byte_tokens{};  // of that alphabet: ids; -1 for a byte that has none
  // What a symbol without a token falls back to: by byte of a character, and by byte of the
  // alphabet of bytes. Empty for none.
  std::array<std::vector<int32_t>, 256> fallback_tokens{};
  // What becomes of those that have no such tokens either: this, or nothing where it is -1.
  int32_t unknown_token = -1;
  bool fuse_unknown = false;   // of several that no other token parts
  bool ignore_merges = false;  // a piece that is a token needs no merges
};

// Immutable but for its caches: any number of threads may use it at a time.
class Bpe {
 public:
  explicit Bpe(const BpeModel& model);
  ~Bpe();
  Bpe(const Bpe&) = delete;
  Bpe& operator=(const Bpe&) = delete;

  // Appends the ids of the pieces, one piece after the other; they are valid UTF-8. A piece of n
  // bytes takes O(n log n) steps.
  void encode(std::span<const std::string_view> pieces, std::vector<int32_t>& ids) const;

 private:
  struct Workspace;

  // From pairs of ids, or of characters' ids, to 64 bits.
  class PairTable {
   public:
    explicit PairTable(size_t pairs);
    void insert(int32_t left, int32_t right, uint64_t value);
    uint64_t find(int32_t left, int32_t right) const;  // kNone when it is not there

   private:
    struct Slot {
      uint64_t pair, value;
    };
    Slot& slot(uint64_t pair);
    int shift_;
    std::vector<Slot> slots_;
  };

  // From code points to ids, in pages of 256.
  class CharacterTable {
   public:
    CharacterTable();
    void insert(char32_t character, int32_t id);
    int32_t find(char32_t character) const;  // -1 when it is not there

   private:
    std::vector<uint16_t> page_of_;
    std::vector<std::array<int32_t, 256>> pages_;
  };

  static constexpr uint64_t kNone = UINT64_MAX;

  void learn_characters(const BpeModel& model);
  void encode_piece(std::string_view piece, Workspace& workspace, std::vector<int32_t>& ids) const;
  void encode_segment(std::string_view segment, Workspace& workspace,
                      std::vector<int32_t>& ids) const;
  void append_symbols(std::string_view segment, std::vector<int32_t>& symbols) const;
  bool append_fallback(std::string_view bytes, std::vector<int32_t>& symbols) const;
  void merge(Workspace& workspace) const;
  void merge_few(Workspace& workspace) const;
  void merge_many(Workspace& workspace) const;

  std::unique_ptr<Workspace> take_workspace() const;

  BpeModel::Alphabet alphabet_;
  std::array<int32_t, 256> byte_tokens_;
  int32_t unknown_token_;
  bool fuse_unknown_;
  std::array<std::vector<int32_t>, 256> fallback_tokens_;
  bool falls_back_always_;
  PairTable merges_;  // to rank << 32 | result
  CharacterTable characters_;
  PairTable joints_;  // characters between which a merge can reach, as ids
  bool byte_tokens_merge_ = false;
  std::unordered_map<std::string, int32_t> whole_pieces_;  // where merges are ignored
  size_t longest_whole_piece_ = 0;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_workspaces_;
};

}  // namespace longshore::data
