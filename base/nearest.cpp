#include "base/nearest.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace longshore {
namespace {

// The most cells of edit distance's tables that are computed for one message: a moment's work, and
// many times what the names of any real model take.
constexpr size_t kMostWork = size_t{1} << 26;

// The edit distance; `least` as soon as it is known to be that or more.
size_t edit_distance(std::string_view a, std::string_view b, size_t least) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= least) return least;
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
    // A later row comes from these two, and no step on the way makes a distance smaller.
    if (std::min(std::ranges::min(before), std::ranges::min(last)) >= least) return least;
  }
  return std::min(least, last[b.size()]);
}

bool abbreviates(std::string_view word, std::string_view candidate) {
  if (word.size() < 3 || !candidate.starts_with(word[0])) return false;
  size_t found = 0;
  for (char letter : candidate)
    if (found < word.size() && letter == word[found]) ++found;
  return found == word.size();
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  size_t bytes = 0;
  for (const std::string& candidate : candidates) bytes += candidate.size();
  if (bytes > kMostWork / std::max<size_t>(1, word.size())) return "";
  for (const std::string& candidate : candidates)
    if (word.size() > 1 && candidate.starts_with(word)) return candidate;
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = edit_distance(word, candidate, best_distance);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty()) return best;
  auto abbreviated = std::ranges::find_if(
      candidates, [&](const std::string& candidate) { return abbreviates(word, candidate); });
  return abbreviated == candidates.end() ? "" : *abbreviated;
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(list)};
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace longshore
