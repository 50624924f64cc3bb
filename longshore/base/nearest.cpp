#include "longshore/base/nearest.h"

#include <algorithm>
#include <vector>

#include "longshore/base/printable.h"

namespace longshore {
namespace {

// The number of cells of edit distances' tables that one message may cost. They take a moment to
// compute, and the names of any real model need far fewer.
constexpr size_t kMaxTableCells = size_t{1} << 26;

constexpr size_t kShort = 3;  // letters of a word of which one makes it another word

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& letter : small)
    if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
  return small;
}

// The edit distance, or `limit` if it is that or more. Stops as soon as that is known.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
    // Later rows are computed from these two, and distances never become smaller on the way.
    if (std::min(std::ranges::min(before), std::ranges::min(last)) >= limit) return limit;
  }
  return std::min(limit, last[b.size()]);
}

// Whether `word` is made of letters of the candidate in their order, as bf16 is of bfloat16 and gas
// of gradient_accumulation_steps: from its first letter on, and from the first letter of each of
// its words that has some.
bool abbreviates(std::string_view word, std::string_view candidate) {
  if (word.size() < 3 || !candidate.starts_with(word[0])) return false;
  // Whether the first i letters can be found up to here, and with the last one in this very word.
  std::vector<bool> before(word.size() + 1), in_word(word.size() + 1);
  before[0] = true;
  bool starts_word = true;
  for (char letter : candidate) {
    if (starts_word) in_word.assign(word.size() + 1, false);
    for (size_t i = word.size(); i > 0; --i)
      if (letter == word[i - 1] && (in_word[i - 1] || (starts_word && before[i - 1])))
        in_word[i] = before[i] = true;
    before[0] = false;  // only the candidate's first letter begins
    starts_word = letter == '_' || letter == '-' || letter == '.';
  }
  return before[word.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  size_t bytes = 0;
  for (const std::string& candidate : candidates) bytes += candidate.size();
  if (bytes > kMaxTableCells / std::max<size_t>(1, word.size())) return "";
  const std::string small = in_small_letters(word);
  std::vector<std::string> names;
  for (const std::string& candidate : candidates) names.push_back(in_small_letters(candidate));
  for (size_t i = 0; i < names.size(); ++i)
    if (small.size() > 1 && names[i].starts_with(small)) return candidates[i];
  size_t best = names.size(), best_distance = std::max<size_t>(1, small.size() * 2 / 5) + 1;
  for (size_t i = 0; i < names.size(); ++i) {
    if (small.size() <= kShort && !small.starts_with(names[i].substr(0, 1))) continue;
    size_t distance = edit_distance(small, names[i], best_distance);
    if (distance < best_distance) {
      best = i;
      best_distance = distance;
    }
  }
  for (size_t i = 0; i < names.size() && best == names.size(); ++i)
    if (abbreviates(small, names[i])) best = i;
  return best < names.size() ? candidates[best] : "";
}

std::string nearest_help(const std::string& choice) {
  constexpr size_t kMost = 1024;
  return choice.empty() ? "" : "; nearest: " + excerpt(choice, kMost);
}

}  // namespace longshore
