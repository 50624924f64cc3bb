#include "longshore/data/jinja/filters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <unordered_map>

#include "longshore/base/integer.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/base/utf8.h"
#include "longshore/data/jinja/arguments.h"
#include "longshore/data/jinja/characters.h"
#include "longshore/data/jinja/json_dumps.h"
#include "longshore/data/jinja/lookup.h"
#include "longshore/data/jinja/methods.h"
#include "longshore/data/jinja/none_named.h"
#include "longshore/data/jinja/operators.h"
#include "longshore/data/jinja/python_text.h"

namespace longshore::data::jinja {
namespace {

struct Call {
  const std::string& name;
  const Value& value;
  const Arguments& arguments;
  Budget& budget;

  Bound bound(std::initializer_list<const char*> parameters, size_t required = 0) const {
    return {arguments, name, parameters, required};
  }
  // The value as a text, which stays a safe one.
  Value text() const { return value.is<Text>() ? value : make_text(str(value, budget), budget); }
  Value iterator(std::vector<Value> elements) const {
    return make_sequence(SequenceKind::iterator, std::move(elements), budget);
  }
};

using Filter = Value (*)(const Call&);

// ---- Attributes by which elements are chosen, sorted or grouped

// "a.b.0", or a number.
class Path {
 public:
  explicit Path(const Value* attribute, Budget& budget) : budget_(budget) {
    if (!attribute || attribute->is<None>()) return;
    const std::string* text = as_text(*attribute);
    if (!text) {
      parts_.push_back(*attribute);
      return;
    }
    for (std::string_view rest = *text;;) {
      const size_t end = std::min(rest.find('.'), rest.size());
      const std::string part(rest.substr(0, end));
      const auto index = part.find_first_not_of("0123456789") == std::string::npos
                             ? integer<int64_t>(part)
                             : std::nullopt;
      parts_.push_back(index ? Value(*index) : make_text(part, budget));
      if (end == rest.size()) break;
      rest.remove_prefix(end + 1);
    }
  }

  Value of(Value value, const Value* other = nullptr) const {
    for (const Value& part : parts_) {
      value = element(value, part, budget_);
      if (other && !other->is<None>() && value.is<Undefined>()) value = *other;
    }
    return value;
  }

 private:
  Budget& budget_;
  std::vector<Value> parts_;
};

Value folded(Value value, bool is_case_sensitive, Budget& budget) {
  if (is_case_sensitive || !value.is<Text>()) return value;
  return make_text(lower(*as_text(value), budget), budget);
}

// Elements with the keys by which they are sorted.
using Keyed = std::vector<std::pair<Value, Value>>;

void sort(Keyed& keyed, bool is_reversed, Budget& budget) {
  budget.memory(keyed.size() * sizeof keyed[0]);
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return is_reversed ? less(b.first, a.first, budget) : less(a.first, b.first, budget);
  });
}

// ---- Texts

template <const char* const& method>
Value by_method(const Call& call) {
  call.bound({});
  return call_text_method(method, call.text(), {}, call.budget);
}

constexpr const char *kUpper = "upper", *kLower = "lower", *kCapitalize = "capitalize";

Value trim(const Call& call) {
  call.bound({"chars"});
  return call_text_method("strip", call.text(), call.arguments, call.budget);
}

Value center(const Call& call) {
  const Bound bound = call.bound({"width"});
  return call_text_method("center", call.text(), {{bound.integer_or(0, 80)}, {}}, call.budget);
}

Value replace(const Call& call) {
  const Bound bound = call.bound({"s", "new", "count"}, 2);
  auto plain = [&](const Value& value) { return make_text(str(value, call.budget), call.budget); };
  const Arguments arguments{{plain(bound[0]), plain(bound[1]), bound.integer_unless_none(2, -1)},
                            {}};
  return call_text_method("replace", plain(call.value), arguments, call.budget);
}

// A capital at the head of each part that white space or one of these separates.
Value title(const Call& call) {
  call.bound({});
  constexpr std::string_view kSeparators = "-({[<";
  const Value text = call.text();
  std::string result, word;
  auto end_word = [&] {
    if (word.empty()) return;
    const size_t first = first_character(word).bytes;
    result += upper(word.substr(0, first), call.budget) + lower(word.substr(first), call.budget);
    word.clear();
  };
  for (std::string_view rest = *as_text(text); !rest.empty();) {
    const Character character = first_character(rest);
    const std::string_view bytes = rest.substr(0, character.bytes);
    rest.remove_prefix(character.bytes);
    call.budget.step();
    if (is_space(character.code_point) || kSeparators.find(bytes) != kSeparators.npos) {
      end_word();
      result += bytes;
    } else {
      word += bytes;
    }
  }
  end_word();
  return make_text(std::move(result), call.budget);
}

Value indent(const Call& call) {
  require_defined(call.value);
  if (!call.value.is<Text>())
    throw DataError("indent: found " + type_name(call.value) + ", expected a str");
  const Bound bound = call.bound({"width", "first", "blank"});
  const bool indents_blank = bound.truth_or(2, false);
  const std::string* own = bound.get(0) ? as_text(bound[0]) : nullptr;
  const Value spaces = binary(Operator::multiply, make_text(" ", call.budget),
                              own ? int64_t{0} : bound.integer_or(0, 4), call.budget);
  const std::string& indentation = own ? *own : *as_text(spaces);
  // With a line break at its end the text has one line more, which is empty.
  const Value with_end = make_text(str(call.value, call.budget) + "\n", call.budget);
  const Value lines = call_text_method("splitlines", with_end, {}, call.budget);
  std::string result;
  bool is_first = true;
  for (const Value& line : Elements(lines, call.budget)) {
    const bool is_indented =
        is_first ? bound.truth_or(1, false) : indents_blank || !as_text(line)->empty();
    call.budget.memory(indentation.size() + as_text(line)->size() + 1);
    if (!std::exchange(is_first, false)) result += '\n';
    if (is_indented) result += indentation;
    result += *as_text(line);
  }
  return text_like(call.value, std::move(result), call.budget);
}

Value truncate(const Call& call) {
  const Bound bound = call.bound({"length", "killwords", "end", "leeway"});
  if (!call.value.is<Text>() && !call.value.is<Undefined>())
    throw DataError("truncate: found " + type_name(call.value) + ", expected a str");
  const Value value = call.text();  // that of an Undefined is empty
  const std::string& text = *as_text(value);
  const std::string end = bound.get(2) ? bound.text(2) : "...";
  const int64_t most = bound.integer_or(0, 255), leeway = bound.integer_unless_none(3, 5);
  const auto end_size = static_cast<int64_t>(count_characters(end, call.budget));
  if (most < end_size || leeway < 0 || most > int64_t{1} << 40 || leeway > int64_t{1} << 40)
    throw DataError("truncate: found a length or a leeway that is too small or too large");
  if (static_cast<int64_t>(count_characters(text, call.budget)) <= most + leeway) return call.value;
  std::string kept =
      text.substr(0, byte_of_character(text, static_cast<size_t>(most - end_size), call.budget));
  if (const size_t space = kept.rfind(' '); !bound.truth_or(1, false) && space != std::string::npos)
    kept.resize(space);
  return make_text(kept + end, call.budget);
}

Value wordcount(const Call& call) {
  call.bound({});
  const Value text = call.text();
  int64_t count = 0;
  bool is_within = false;
  for (std::string_view rest = *as_text(text); !rest.empty();) {
    const Character character = first_character(rest);
    const bool is_letter = is_word(character.code_point);
    count += is_letter && !is_within;
    is_within = is_letter;
    rest.remove_prefix(character.bytes);
    call.budget.step();
  }
  return count;
}

Value format(const Call& call) {
  const auto& [positional, named] = call.arguments;
  if (!positional.empty() && !named.empty())
    throw DataError("format: found values both by place and by name, expected one kind");
  Dict dict;
  for (const auto& [name, value] : named)
    insert(dict, make_text(name, call.budget), value, call.budget);
  const Value values =
      named.empty() ? make_tuple(positional, call.budget) : make_dict(std::move(dict), call.budget);
  return binary(Operator::modulo, call.text(), values, call.budget);
}

Value safe(const Call& call) {
  call.bound({});
  Value text = make_text(str(call.value, call.budget), call.budget);
  std::get<Text>(text).is_safe = true;
  return text;
}

template <bool again>  // also what is safe
Value escape(const Call& call) {
  call.bound({});
  const Text* text = call.value.get<Text>();
  if (text && text->is_safe && !again) return call.value;
  Value escaped =
      make_text(escaped_for_html(str(call.value, call.budget), call.budget), call.budget);
  std::get<Text>(escaped).is_safe = true;
  return escaped;
}

Value tojson(const Call& call) {
  const Bound bound = call.bound({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.truth_or(0, false);
  style.sort_keys = bound.truth_or(3, false);
  if (const Value* indent = bound.get(1); indent && !indent->is<None>()) {
    const int64_t width = as_text(*indent) ? 0 : as_integer(*indent, "an indentation");
    const Value spaces =
        binary(Operator::multiply, make_text(" ", call.budget), width, call.budget);
    style.indent = as_text(*indent) ? *as_text(*indent) : *as_text(spaces);
    style.between_items = ",";
  }
  if (const Value* separators = bound.get(2); separators && !separators->is<None>()) {
    const Elements both(*separators, call.budget);
    if (both.size() != 2 || !as_text(both[0]) || !as_text(both[1]))
      throw DataError("tojson: found other separators, expected two texts");
    style.between_items = *as_text(both[0]);
    style.after_key = *as_text(both[1]);
  }
  return make_text(json_dumps(call.value, style, call.budget), call.budget);
}

// ---- Numbers

// Of Python's int(text, base); nothing for a text that is no integer. Digits are ASCII's alone.
std::optional<int64_t> integer_of_text(std::string_view text, int64_t base, Budget& budget) {
  text = stripped_right(stripped_left(text, nullptr, budget), nullptr, budget);
  budget.scan(text.size());
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string_view marks = base == 16 ? "xX" : base == 8 ? "oO" : base == 2 ? "bB" : "";
  if (text.size() > 2 && text[0] == '0' && marks.find(text[1]) != marks.npos) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  std::string digits = is_negative ? "-" : "";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (text[i] == '_' && is_between) continue;
    if (!std::isalnum(static_cast<unsigned char>(text[i]))) return std::nullopt;
    digits += text[i];
  }
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (error == std::errc::result_out_of_range && stopped == end)
    throw DataError("found an integer beyond 64 bits, expected none");
  return error == std::errc() && stopped == end ? std::optional(value) : std::nullopt;
}

std::optional<double> real_of_text(std::string_view text, Budget& budget) {
  text = stripped_right(stripped_left(text, nullptr, budget), nullptr, budget);
  budget.scan(text.size());
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    auto is_digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    digits += text[i];
  }
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || stopped != end || digits.find('(') != std::string::npos)
    return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::strtod(digits.c_str(), nullptr);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Value to_int(const Call& call) {
  const Bound bound = call.bound({"default", "base"});
  const Value other = bound.get(0) ? bound[0] : Value(int64_t{0});
  const int64_t base = bound.integer_or(1, 10);
  if (base < 2 || base > 36)
    throw DataError("int: found the base " + std::to_string(base) + ", expected one of 2 to 36");
  require_defined(call.value);
  std::optional<double> real;
  if (const std::string* text = as_text(call.value)) {
    if (auto whole = integer_of_text(*text, base, call.budget)) return *whole;
    real = real_of_text(*text, call.budget);
  } else if (is_number(call.value)) {
    if (!call.value.is<double>()) return to_integer(call.value);
    real = as_double(call.value);
  }
  return real && std::isfinite(*real) ? Value(to_integer(*real)) : other;
}

Value to_float(const Call& call) {
  const Bound bound = call.bound({"default"});
  require_defined(call.value);
  if (is_number(call.value)) return as_double(call.value);
  if (const std::string* text = as_text(call.value))
    if (const auto real = real_of_text(*text, call.budget)) return *real;
  return bound.get(0) ? bound[0] : Value(0.0);
}

Value absolute(const Call& call) {
  call.bound({});
  const Value number = positive(call.value);
  return as_double(number) < 0 || (number.is<double>() && std::signbit(as_double(number)))
             ? negated(number)
             : number;
}

// To so many digits behind the point, and to the even one where two are as near.
double rounded(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 320) return number;
  if (digits < -320) return std::copysign(0.0, number);
  if (digits >= 0) {
    std::array<char, 1024> text{};
    std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), number);
    return std::strtod(text.data(), nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / unit) * unit;
}

Value round(const Call& call) {
  const Bound bound = call.bound({"precision", "method"});
  const int64_t digits = bound.integer_or(0, 0);
  const std::string method = bound.get(1) ? bound.text(1) : "common";
  const Value number = positive(call.value);
  if (method == "common") {
    if (number.is<double>()) return rounded(as_double(number), digits);
    return digits >= 0 ? number : Value(to_integer(rounded(as_double(number), digits)));
  }
  if (method != "ceil" && method != "floor")
    throw DataError("round: found the method " + excerpt(method) +
                    ", expected common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = as_double(number) * unit;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

// ---- Lists

Value default_value(const Call& call) {
  const Bound bound = call.bound({"default_value", "boolean"});
  const bool is_missing =
      call.value.is<Undefined>() || (bound.truth_or(1, false) && !is_true(call.value));
  if (!is_missing) return call.value;
  return bound.get(0) ? bound[0] : make_text("", call.budget);
}

Value count(const Call& call) {
  call.bound({});
  if (call.value.is<std::weak_ptr<Loop>>()) return attribute(call.value, "length", call.budget);
  const auto size = length(call.value, call.budget);
  if (!size) throw DataError("found " + type_name(call.value) + ", expected a value with a length");
  return static_cast<int64_t>(*size);
}

Value nothing() { return make_undefined("there is no element, the sequence is empty"); }

Value first(const Call& call) {
  call.bound({});
  auto* sequence = call.value.get<SequencePtr>();
  if (sequence && (*sequence)->kind == SequenceKind::iterator) {
    Sequence& own = **sequence;
    return own.taken < own.elements.size() ? own.elements[own.taken++] : nothing();
  }
  const Elements elements(call.value, call.budget);
  return elements.empty() ? nothing() : elements[0];
}

Value last(const Call& call) {
  call.bound({});
  auto* sequence = call.value.get<SequencePtr>();
  if (sequence && (*sequence)->kind == SequenceKind::iterator)
    throw DataError("last: found an iterator, expected what has an end, as the filter list makes");
  const Elements elements(call.value, call.budget);
  return elements.empty() ? nothing() : elements[elements.size() - 1];
}

Value list(const Call& call) {
  call.bound({});
  return make_list(Elements(call.value, call.budget).copy(call.budget), call.budget);
}

Value reverse(const Call& call) {
  call.bound({});
  if (call.value.is<Text>()) return slice(call.value, None{}, None{}, int64_t{-1}, call.budget);
  std::vector<Value> elements = Elements(call.value, call.budget).copy(call.budget);
  std::ranges::reverse(elements);
  // Python goes backwards through what has an end, and makes a list of what has none.
  auto* sequence = call.value.get<SequencePtr>();
  const bool is_iterator = sequence && (*sequence)->kind == SequenceKind::iterator;
  return is_iterator ? make_list(std::move(elements), call.budget)
                     : call.iterator(std::move(elements));
}

Value items(const Call& call) {
  call.bound({});
  if (call.value.is<Undefined>()) return call.iterator({});
  auto* dict = call.value.get<DictPtr>();
  if (!dict) throw DataError("items: found " + type_name(call.value) + ", expected a dict");
  std::vector<Value> pairs;
  for (const auto& [key, value] : (*dict)->items)
    pairs.push_back(make_tuple({key, value}, call.budget));
  return call.iterator(std::move(pairs));
}

Value join(const Call& call) {
  const Bound bound = call.bound({"d", "attribute"});
  const std::string between = bound.get(0) ? str(bound[0], call.budget) : "";
  const Path path(bound.get(1), call.budget);
  std::string result;
  bool is_first = true;
  for (const Value& element : Elements(call.value, call.budget)) {
    if (!std::exchange(is_first, false)) {
      call.budget.memory(between.size());
      result += between;
    }
    call.budget.step();
    result += str(path.of(element), call.budget);
  }
  return make_text(std::move(result), call.budget);
}

Value dictsort(const Call& call) {
  const Bound bound = call.bound({"case_sensitive", "by", "reverse"});
  const std::string by = bound.get(1) ? bound.text(1) : "key";
  if (by != "key" && by != "value")
    throw DataError("dictsort: found an order by " + excerpt(by) + ", expected by key or value");
  require_defined(call.value);
  auto* dict = call.value.get<DictPtr>();
  if (!dict) throw DataError("dictsort: found " + type_name(call.value) + ", expected a dict");
  Keyed keyed;
  for (const auto& [key, value] : (*dict)->items)
    keyed.emplace_back(folded(by == "key" ? key : value, bound.truth_or(0, false), call.budget),
                       make_tuple({key, value}, call.budget));
  sort(keyed, bound.truth_or(2, false), call.budget);
  std::vector<Value> pairs;
  for (auto& pair : keyed) pairs.push_back(std::move(pair.second));
  return make_list(std::move(pairs), call.budget);
}

Value sorted(const Call& call) {
  const Bound bound = call.bound({"reverse", "case_sensitive", "attribute"});
  // "a,b.c": by the first, and where that is equal by the next.
  std::vector<Path> paths;
  const std::string* text = bound.get(2) ? as_text(bound[2]) : nullptr;
  if (text) {
    for (std::string_view rest = *text;;) {
      const size_t end = std::min(rest.find(','), rest.size());
      const Value part = make_text(std::string(rest.substr(0, end)), call.budget);
      paths.emplace_back(&part, call.budget);
      if (end == rest.size()) break;
      rest.remove_prefix(end + 1);
    }
  } else {
    paths.emplace_back(bound.get(2), call.budget);
  }
  Keyed keyed;
  for (const Value& element : Elements(call.value, call.budget)) {
    std::vector<Value> key;
    key.reserve(paths.size());
    for (const Path& path : paths)
      key.push_back(folded(path.of(element), bound.truth_or(1, false), call.budget));
    keyed.emplace_back(make_list(std::move(key), call.budget), element);
  }
  sort(keyed, bound.truth_or(0, false), call.budget);
  std::vector<Value> elements;
  for (auto& pair : keyed) elements.push_back(std::move(pair.second));
  return make_list(std::move(elements), call.budget);
}

Value unique(const Call& call) {
  const Bound bound = call.bound({"case_sensitive", "attribute"});
  const Path path(bound.get(1), call.budget);
  std::set<std::string> seen;
  std::vector<Value> elements;
  for (const Value& element : Elements(call.value, call.budget)) {
    std::string key =
        hash_key(folded(path.of(element), bound.truth_or(0, false), call.budget), call.budget);
    call.budget.memory(key.size() + sizeof element);
    if (seen.insert(std::move(key)).second) elements.push_back(element);
  }
  return call.iterator(std::move(elements));
}

Value groupby(const Call& call) {
  const Bound bound = call.bound({"attribute", "default", "case_sensitive"}, 1);
  const Path path(bound.get(0), call.budget);
  const bool is_case_sensitive = bound.truth_or(2, false);
  Keyed keyed;
  for (const Value& element : Elements(call.value, call.budget))
    keyed.emplace_back(folded(path.of(element, bound.get(1)), is_case_sensitive, call.budget),
                       element);
  sort(keyed, false, call.budget);
  std::vector<Value> groups;
  for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    std::vector<Value> elements;
    while (end < keyed.size() && equal(keyed[end].first, keyed[begin].first, call.budget))
      elements.push_back(keyed[end++].second);
    if (elements.empty()) elements.push_back(keyed[end++].second);  // a NaN
    // The key of a group is its first element's, with its capitals.
    const Value key = path.of(keyed[begin].second, bound.get(1));
    groups.push_back(make_sequence(
        SequenceKind::group, {key, make_list(std::move(elements), call.budget)}, call.budget));
  }
  return make_list(std::move(groups), call.budget);
}

// Filled up to `size`, where there is something to fill it with.
Value filled(std::vector<Value> elements, size_t size, const Value* filling, Budget& budget) {
  if (filling && !filling->is<None>() && elements.size() < size) {
    budget.memory((size - elements.size()) * sizeof(Value));
    elements.resize(size, *filling);
  }
  return make_list(std::move(elements), budget);
}

Value batch(const Call& call) {
  const Bound bound = call.bound({"linecount", "fill_with"}, 1);
  const int64_t size = bound.integer_or(0, 0);
  std::vector<Value> batches, part;
  for (const Value& element : Elements(call.value, call.budget)) {
    if (static_cast<int64_t>(part.size()) == size)
      batches.push_back(make_list(std::exchange(part, {}), call.budget));
    part.push_back(element);
  }
  if (!part.empty())
    batches.push_back(filled(std::move(part), static_cast<size_t>(std::max<int64_t>(size, 0)),
                             bound.get(1), call.budget));
  return call.iterator(std::move(batches));
}

Value slices(const Call& call) {
  const Bound bound = call.bound({"slices", "fill_with"}, 1);
  const int64_t count = bound.integer_or(0, 0);
  if (count < 1 || count > 100'000)
    throw DataError("slice: found a count of " + std::to_string(count) + ", expected 1 to 100000");
  const Elements elements(call.value, call.budget);
  const size_t size = elements.size() / static_cast<size_t>(count);
  const size_t longer = elements.size() % static_cast<size_t>(count);
  std::vector<Value> all;
  const auto* at = elements.empty() ? nullptr : &elements[0];
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const size_t own = size + (i < longer);
    std::vector<Value> part(at, at + own);
    at += own;
    all.push_back(filled(std::move(part), size + (i >= longer), bound.get(1), call.budget));
  }
  return call.iterator(std::move(all));
}

Value sum(const Call& call) {
  const Bound bound = call.bound({"attribute", "start"});
  const Path path(bound.get(0), call.budget);
  Value total = bound.get(1) ? bound[1] : Value(int64_t{0});
  if (total.is<Text>()) throw DataError("sum: found a str to start with, expected the filter join");
  for (const Value& element : Elements(call.value, call.budget)) {
    call.budget.step();
    total = binary(Operator::add, total, path.of(element), call.budget);
  }
  return total;
}

template <bool greatest>
Value extreme(const Call& call) {
  const Bound bound = call.bound({"case_sensitive", "attribute"});
  const Path path(bound.get(1), call.budget);
  std::optional<Value> best, best_key;
  for (const Value& element : Elements(call.value, call.budget)) {
    Value key = folded(path.of(element), bound.truth_or(0, false), call.budget);
    const bool is_better =
        !best || (greatest ? less(*best_key, key, call.budget) : less(key, *best_key, call.budget));
    if (!is_better) continue;
    best = element;
    best_key = std::move(key);
  }
  return best ? *best : nothing();
}

// The name of another filter or test, and what that is given.
std::pair<std::string, Arguments> inner_call(const Call& call, size_t place) {
  const auto& positional = call.arguments.positional;
  const std::string* name = as_text(positional[place]);
  if (!name)
    throw DataError(call.name + ": found " + type_name(positional[place]) +
                    " as a name, expected a str");
  call.budget.memory(positional.size() * sizeof(Value));
  return {*name,
          {{positional.begin() + static_cast<std::ptrdiff_t>(place) + 1, positional.end()},
           call.arguments.named}};
}

Value map(const Call& call) {
  if (!is_true(call.value)) return call.iterator({});
  std::vector<Value> mapped;
  auto add = [&](Value value) {
    call.budget.step();
    call.budget.memory(sizeof value);
    mapped.push_back(std::move(value));
  };
  if (call.arguments.positional.empty()) {
    const Bound bound = call.bound({"attribute", "default"}, 1);
    const Path path(bound.get(0), call.budget);
    for (const Value& element : Elements(call.value, call.budget))
      add(path.of(element, bound.get(1)));
    return call.iterator(std::move(mapped));
  }
  const auto [name, arguments] = inner_call(call, 0);
  for (const Value& element : Elements(call.value, call.budget))
    add(apply_filter(name, element, arguments, call.budget));
  return call.iterator(std::move(mapped));
}

// Those elements of which a test, or their own truth, says what is wanted.
template <bool wanted, bool by_attribute>
Value select(const Call& call) {
  const auto& positional = call.arguments.positional;
  if (by_attribute && positional.empty())
    throw DataError(call.name + ": found no argument, expected an attribute's name");
  if (!is_true(call.value)) return call.iterator({});
  const Path path(by_attribute ? &positional[0] : nullptr, call.budget);
  const bool has_test = positional.size() > size_t{by_attribute};
  const auto [name, arguments] =
      has_test ? inner_call(call, size_t{by_attribute}) : std::pair<std::string, Arguments>();
  std::vector<Value> selected;
  for (const Value& element : Elements(call.value, call.budget)) {
    const Value tested = path.of(element);
    const bool holds =
        has_test ? apply_test(name, tested, arguments, call.budget) : is_true(tested);
    call.budget.step();
    if (holds == wanted) selected.push_back(element);
  }
  return call.iterator(std::move(selected));
}

const std::unordered_map<std::string, Filter>& filters() {
  static const std::unordered_map<std::string, Filter> all = {
      {"abs", absolute},
      {"batch", batch},
      {"capitalize", by_method<kCapitalize>},
      {"center", center},
      {"count", count},
      {"d", default_value},
      {"default", default_value},
      {"dictsort", dictsort},
      {"e", escape<false>},
      {"escape", escape<false>},
      {"first", first},
      {"float", to_float},
      {"forceescape", escape<true>},
      {"format", format},
      {"groupby", groupby},
      {"indent", indent},
      {"int", to_int},
      {"items", items},
      {"join", join},
      {"last", last},
      {"length", count},
      {"list", list},
      {"lower", by_method<kLower>},
      {"map", map},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", select<false, false>},
      {"rejectattr", select<false, true>},
      {"replace", replace},
      {"reverse", reverse},
      {"round", round},
      {"safe", safe},
      {"select", select<true, false>},
      {"selectattr", select<true, true>},
      {"slice", slices},
      {"sort", sorted},
      {"string", [](const Call& call) { return call.bound({}), call.text(); }},
      {"sum", sum},
      {"title", title},
      {"tojson", tojson},
      {"trim", trim},
      {"truncate", truncate},
      {"unique", unique},
      {"upper", by_method<kUpper>},
      {"wordcount", wordcount},
  };
  return all;
}

}  // namespace

bool has_filter(const std::string& name) { return filters().contains(name); }

std::string no_filter(const std::string& name) { return none_named("filter", filters(), name); }

Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments,
                   Budget& budget) {
  const Budget::Level level(budget);
  budget.step(2);
  const auto filter = filters().find(name);
  if (filter == filters().end()) throw DataError(no_filter(name));
  return filter->second({name, value, arguments, budget});
}

}  // namespace longshore::data::jinja
