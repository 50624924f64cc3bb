#include "longshore/data/jinja/methods.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>

#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/jinja/arguments.h"
#include "longshore/data/jinja/characters.h"
#include "longshore/data/jinja/operators.h"

namespace longshore::data::jinja {
namespace {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

// A call of a method: of which value, and with what.
struct Call {
  const Value& self;
  const Arguments& arguments;
  Budget& budget;

  const std::string& text() const { return *as_text(self); }
  Bound bound(const char* name, std::initializer_list<const char*> parameters,
              size_t required = 0) const {
    return {arguments, name, parameters, required};
  }
  // A text that is made of this one alone.
  Value made(std::string text) const { return text_like(self, std::move(text), budget); }
};

using Method = Value (*)(const Call&);
using Methods = std::unordered_map<std::string, Method>;

// ---- str

template <std::string (*map)(std::string_view, Budget&)>
Value mapped(const Call& call) {
  call.bound("the method", {});
  return call.made(map(call.text(), call.budget));
}

template <CharacterClass character_class>
Value is_of(const Call& call) {
  call.bound("the method", {});
  return is_all(call.text(), character_class, call.budget);
}

const std::string* text_or_none(const Bound& bound, size_t parameter) {
  const Value* value = bound.get(parameter);
  return value && !value->is<None>() ? &bound.text(parameter) : nullptr;
}

template <bool left, bool right>
Value strip(const Call& call) {
  const Bound bound = call.bound("strip", {"chars"});
  const std::string* removed = text_or_none(bound, 0);
  std::string_view text = call.text();
  if (left) text = stripped_left(text, removed, call.budget);
  if (right) text = stripped_right(text, removed, call.budget);
  return call.made(std::string(text));
}

// The part of the text between two positions that count characters, and where it begins.
struct Part {
  std::string_view text;
  int64_t begin;
  bool is_within;  // whether it begins within the text, or at its end
};

Part part_of(const Call& call, const Bound& bound) {
  std::string_view text = call.text();
  const int64_t begin = bound.integer_unless_none(1, 0);
  const int64_t end = bound.integer_unless_none(2, kAll);
  if (begin == 0 && end == kAll) return {text, 0, true};
  const auto count = static_cast<int64_t>(count_characters(text, call.budget));
  auto position = [&](int64_t at) { return std::max<int64_t>(at < 0 ? at + count : at, 0); };
  const int64_t first = position(begin), last = std::min(position(end), count);
  const size_t at = byte_of_character(text, static_cast<size_t>(first), call.budget);
  text.remove_prefix(at);
  const auto characters = static_cast<size_t>(std::max<int64_t>(last - first, 0));
  return {text.substr(0, byte_of_character(text, characters, call.budget)), first,
          first <= count && first <= last};
}

template <bool from_end, bool must_find>
Value find_in(const Call& call) {
  const Bound bound = call.bound("find", {"sub", "start", "end"}, 1);
  const Part part = part_of(call, bound);
  const size_t found = !part.is_within ? std::string::npos
                       : from_end      ? rfind_text(part.text, bound.text(0), call.budget)
                                       : find_text(part.text, bound.text(0), 0, call.budget);
  if (found != std::string::npos)
    return part.begin +
           static_cast<int64_t>(count_characters(part.text.substr(0, found), call.budget));
  if (must_find)
    throw DataError("index: found no " + in_quotes(bound.text(0)) + " in the text, expected one");
  return int64_t{-1};
}

Value count_in_text(const Call& call) {
  const Bound bound = call.bound("count", {"sub", "start", "end"}, 1);
  const Part part = part_of(call, bound);
  const std::string& sub = bound.text(0);
  if (!part.is_within) return int64_t{0};
  if (sub.empty()) return static_cast<int64_t>(count_characters(part.text, call.budget)) + 1;
  int64_t count = 0;
  for (size_t at = find_text(part.text, sub, 0, call.budget); at != std::string::npos;
       at = find_text(part.text, sub, at + sub.size(), call.budget)) {
    ++count;
    call.budget.step();
  }
  return count;
}

template <bool at_end>
Value has_affix(const Call& call) {
  const Bound bound = call.bound(at_end ? "endswith" : "startswith", {"affix", "start", "end"}, 1);
  const Part part = part_of(call, bound);
  auto has = [&](const std::string& affix) {
    call.budget.step(1 + affix.size() / 32);
    return part.is_within && (at_end ? part.text.ends_with(affix) : part.text.starts_with(affix));
  };
  auto* affixes = bound[0].get<SequencePtr>();
  if (!affixes || !(*affixes)->is_tuple()) return has(bound.text(0));
  return std::ranges::any_of((*affixes)->elements, [&](const Value& affix) {
    if (!as_text(affix))
      throw DataError("found " + type_name(affix) + " among affixes, expected a str");
    return has(*as_text(affix));
  });
}

Value list_of_texts(const Call& call, std::span<const std::string_view> parts) {
  std::vector<Value> texts;
  for (std::string_view part : parts) texts.push_back(call.made(std::string(part)));
  return make_list(std::move(texts), call.budget);
}

std::vector<std::string_view> split_at_spaces(std::string_view text, int64_t most, bool from_end,
                                              Budget& budget) {
  std::vector<std::string_view> parts;
  budget.step(text.size() / 16);
  auto strip_near = from_end ? stripped_right : stripped_left;
  for (text = strip_near(text, nullptr, budget); !text.empty();
       text = strip_near(text, nullptr, budget)) {
    budget.step();
    if (most-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t size = 0;
    if (from_end) {
      while (size < text.size()) {
        const size_t last = last_character_at(text.substr(0, text.size() - size));
        if (is_space(first_character(text.substr(last)).code_point)) break;
        size = text.size() - last;
      }
      parts.push_back(text.substr(text.size() - size));
      text.remove_suffix(size);
    } else {
      while (size < text.size()) {
        const Character character = first_character(text.substr(size));
        if (is_space(character.code_point)) break;
        size += character.bytes;
      }
      parts.push_back(text.substr(0, size));
      text.remove_prefix(size);
    }
    budget.memory(sizeof(std::string_view));
  }
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, const std::string& separator,
                                       int64_t most, bool from_end, Budget& budget) {
  if (separator.empty()) throw DataError("split: found an empty separator, expected another");
  // All places from the left, of which those from the right may overlap others.
  std::vector<std::string_view> parts;
  auto take = [&](std::string_view part) {
    budget.memory(sizeof(std::string_view));
    parts.push_back(part);
  };
  if (!from_end) {
    size_t begin = 0;
    while (most-- != 0) {
      budget.step();
      const size_t found = find_text(text, separator, begin, budget);
      if (found == text.npos) break;
      take(text.substr(begin, found - begin));
      begin = found + separator.size();
    }
    take(text.substr(begin));
    return parts;
  }
  while (most-- != 0) {
    budget.step();
    // The search reads from the end as far as it must: a part of the text at a time.
    const size_t found = rfind_text(text, separator, budget);
    if (found == text.npos) break;
    take(text.substr(found + separator.size()));
    text = text.substr(0, found);
  }
  take(text);
  return parts;
}

template <bool from_end>
Value split(const Call& call) {
  const Bound bound = call.bound("split", {"sep", "maxsplit"});
  const int64_t most = bound.integer_or(1, -1);
  const std::string* separator = text_or_none(bound, 0);
  auto parts = separator ? split_at(call.text(), *separator, most, from_end, call.budget)
                         : split_at_spaces(call.text(), most, from_end, call.budget);
  if (from_end) std::ranges::reverse(parts);
  return list_of_texts(call, parts);
}

Value splitlines(const Call& call) {
  const Bound bound = call.bound("splitlines", {"keepends"});
  const bool keeps = bound.truth_or(0, false);
  std::vector<std::string_view> lines;
  std::string_view rest = call.text();
  call.budget.step(rest.size() / 16);
  for (size_t at = 0; at < rest.size();) {
    const Character character = first_character(rest.substr(at));
    const char32_t c = character.code_point;
    size_t end = at + character.bytes;
    const bool is_break =
        (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!is_break) {
      at = end;
      continue;
    }
    if (c == '\r' && end < rest.size() && rest[end] == '\n') ++end;
    lines.push_back(rest.substr(0, keeps ? end : at));
    rest.remove_prefix(end);
    at = 0;
  }
  if (!rest.empty()) lines.push_back(rest);
  return list_of_texts(call, lines);
}

template <bool from_end>
Value partition(const Call& call) {
  const Bound bound = call.bound("partition", {"sep"}, 1);
  const std::string_view text = call.text();
  const std::string& separator = bound.text(0);
  if (separator.empty()) throw DataError("partition: found an empty separator, expected another");
  const size_t found = from_end ? rfind_text(text, separator, call.budget)
                                : find_text(text, separator, 0, call.budget);
  auto made = [&](std::string_view part) { return call.made(std::string(part)); };
  if (found == text.npos)
    return make_tuple({made(from_end ? "" : text), made(""), made(from_end ? text : "")},
                      call.budget);
  return make_tuple(
      {made(text.substr(0, found)), made(separator), made(text.substr(found + separator.size()))},
      call.budget);
}

Value replace(const Call& call) {
  const Bound bound = call.bound("replace", {"old", "new", "count"}, 2);
  const std::string &from = bound.text(0), &to = bound.text(1);
  std::string_view rest = call.text();
  int64_t most = bound.integer_or(2, -1);
  std::string result;
  auto add = [&](std::string_view part) {
    call.budget.memory(part.size());
    result += part;
  };
  while (most-- != 0) {
    call.budget.step();
    if (from.empty()) {  // stands before each character, and at the end
      add(to);
      if (rest.empty()) return call.made(std::move(result));
      const size_t bytes = first_character(rest).bytes;
      add(rest.substr(0, bytes));
      rest.remove_prefix(bytes);
      continue;
    }
    const size_t found = find_text(rest, from, 0, call.budget);
    if (found == rest.npos) break;
    add(rest.substr(0, found));
    add(to);
    rest.remove_prefix(found + from.size());
  }
  add(rest);
  return call.made(std::move(result));
}

Value join(const Call& call) {
  const Bound bound = call.bound("join", {"iterable"}, 1);
  std::string result;
  std::string_view between;
  for (const Value& element : Elements(bound[0], call.budget)) {
    const std::string* part = as_text(element);
    if (!part)
      throw DataError("join: found " + type_name(element) + " among the parts, expected a str");
    call.budget.step();
    call.budget.memory(between.size() + part->size());
    (result += between) += *part;
    between = call.text();
  }
  return call.made(std::move(result));
}

template <bool left, bool right>  // whether it is filled there
Value justify(const Call& call) {
  const Bound bound = call.bound("justify", {"width", "fillchar"}, 1);
  const std::string fill = bound.get(1) ? bound.text(1) : " ";
  if (count_characters(fill, call.budget) != 1)
    throw DataError("found a text to fill with that is not one character, expected one");
  const auto count = static_cast<int64_t>(count_characters(call.text(), call.budget));
  const int64_t width = bound.integer_or(0, 0), missing = width > count ? width - count : 0;
  // As Python's center() puts an odd one.
  const int64_t on_left = !left ? 0 : !right ? missing : missing / 2 + (missing & width & 1);
  auto filled = [&](int64_t times) {
    return *as_text(binary(Operator::multiply, make_text(fill, call.budget), times, call.budget));
  };
  return call.made(filled(on_left) + call.text() + filled(missing - on_left));
}

Value zfill(const Call& call) {
  const Bound bound = call.bound("zfill", {"width"}, 1);
  std::string text = call.text();
  const auto count = static_cast<int64_t>(count_characters(text, call.budget));
  const int64_t missing = bound.integer_or(0, 0) - count;
  if (bound.integer_or(0, 0) <= count) return call.self;
  const Value zeros = binary(Operator::multiply, make_text("0", call.budget), missing, call.budget);
  return call.made(
      text.insert(text.starts_with('-') || text.starts_with('+') ? 1 : 0, *as_text(zeros)));
}

Value expandtabs(const Call& call) {
  const Bound bound = call.bound("expandtabs", {"tabsize"});
  const int64_t size = std::max<int64_t>(bound.integer_or(0, 8), 0);
  std::string result;
  int64_t column = 0;
  for (char c : call.text()) {
    call.budget.step();
    if (c == '\t') {
      const int64_t spaces = size == 0 ? 0 : size - column % size;
      call.budget.memory(static_cast<size_t>(spaces));
      result.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
      continue;
    }
    result += c;
    if (c == '\n' || c == '\r')
      column = 0;
    else if ((c & '\xc0') != '\x80')
      ++column;
  }
  return call.made(std::move(result));
}

template <bool at_end>
Value remove_affix(const Call& call) {
  const Bound bound = call.bound("removeprefix", {"affix"}, 1);
  const std::string_view text = call.text(), affix = bound.text(0);
  if (!(at_end ? text.ends_with(affix) : text.starts_with(affix))) return call.self;
  return call.made(
      std::string(at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size())));
}

const Methods& text_methods() {
  static const Methods methods = {
      {"capitalize", mapped<capitalized>},
      {"center", justify<true, true>},
      {"count", count_in_text},
      {"endswith", has_affix<true>},
      {"expandtabs", expandtabs},
      {"find", find_in<false, false>},
      {"index", find_in<false, true>},
      {"isalnum", is_of<CharacterClass::alphanumeric>},
      {"isalpha", is_of<CharacterClass::alphabetic>},
      {"isascii", is_of<CharacterClass::ascii>},
      {"isdecimal", is_of<CharacterClass::decimal>},
      {"isdigit", is_of<CharacterClass::digit>},
      {"isidentifier", is_of<CharacterClass::identifier>},
      {"islower", is_of<CharacterClass::lower>},
      {"isnumeric", is_of<CharacterClass::numeric>},
      {"isprintable", is_of<CharacterClass::printable>},
      {"isspace", is_of<CharacterClass::space>},
      {"istitle", is_of<CharacterClass::title>},
      {"isupper", is_of<CharacterClass::upper>},
      {"join", join},
      {"ljust", justify<false, true>},
      {"lower", mapped<lower>},
      {"lstrip", strip<true, false>},
      {"partition", partition<false>},
      {"removeprefix", remove_affix<false>},
      {"removesuffix", remove_affix<true>},
      {"replace", replace},
      {"rfind", find_in<true, false>},
      {"rindex", find_in<true, true>},
      {"rjust", justify<true, false>},
      {"rpartition", partition<true>},
      {"rsplit", split<true>},
      {"rstrip", strip<false, true>},
      {"split", split<false>},
      {"splitlines", splitlines},
      {"startswith", has_affix<false>},
      {"strip", strip<true, true>},
      {"swapcase", mapped<swapped_case>},
      {"title", mapped<titled>},
      {"upper", mapped<upper>},
      {"zfill", zfill},
  };
  return methods;
}

// ---- list, tuple and dict

const std::vector<Value>& elements_of(const Call& call) {
  return (*call.self.get<SequencePtr>())->elements;
}

Value index_in_list(const Call& call) {
  const Bound bound = call.bound("index", {"value", "start", "stop"}, 1);
  const auto& elements = elements_of(call);
  const auto count = static_cast<int64_t>(elements.size());
  auto position = [&](int64_t at) { return std::max<int64_t>(at < 0 ? at + count : at, 0); };
  const int64_t end = std::min(position(bound.integer_or(2, kAll)), count);
  for (int64_t i = position(bound.integer_or(1, 0)); i < end; ++i)
    if (equal(elements[static_cast<size_t>(i)], bound[0], call.budget)) return i;
  throw DataError("index: found no such element in the list, expected one");
}

Value count_in_list(const Call& call) {
  const Bound bound = call.bound("count", {"value"}, 1);
  return static_cast<int64_t>(std::ranges::count_if(
      elements_of(call), [&](const Value& own) { return equal(own, bound[0], call.budget); }));
}

Value copy(const Call& call) {
  call.bound("copy", {});
  if (auto* dict = call.self.get<DictPtr>()) {
    call.budget.memory((*dict)->items.size() * 256);
    return make_dict(**dict, call.budget);
  }
  return make_list(Elements(call.self, call.budget).copy(call.budget), call.budget);
}

const Dict& dict_of(const Call& call) { return **call.self.get<DictPtr>(); }

Value get(const Call& call) {
  const Bound bound = call.bound("get", {"key", "default"}, 1);
  if (const Value* own = find(dict_of(call), bound[0], call.budget)) return *own;
  hash_key(bound[0], call.budget);
  return bound.get(1) ? bound[1] : Value(None{});
}

template <SequenceKind kind>
Value view(const Call& call) {
  call.bound("the method", {});
  std::vector<Value> elements;
  call.budget.memory(dict_of(call).items.size() * sizeof(Value));
  for (const auto& [key, value] : dict_of(call).items) {
    call.budget.step();
    elements.push_back(kind == SequenceKind::keys     ? key
                       : kind == SequenceKind::values ? value
                                                      : make_tuple({key, value}, call.budget));
  }
  return make_sequence(kind, std::move(elements), call.budget);
}

const Methods& tuple_methods() {
  static const Methods methods = {{"count", count_in_list}, {"index", index_in_list}};
  return methods;
}

const Methods& list_methods() {
  static const Methods methods = {
      {"copy", copy}, {"count", count_in_list}, {"index", index_in_list}};
  return methods;
}

const Methods& dict_methods() {
  static const Methods methods = {{"copy", copy},
                                  {"get", get},
                                  {"items", view<SequenceKind::items>},
                                  {"keys", view<SequenceKind::keys>},
                                  {"values", view<SequenceKind::values>}};
  return methods;
}

// Of Python's, what templates may not use, and what is not there yet.
struct Others {
  std::vector<std::string> changing, missing;
};

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<Value> one_of(const Methods& methods, const Others& others, const Value& value,
                            const std::string& name, Budget& budget) {
  if (has(others.changing, name))
    return make_undefined("the method " + name + " of " + type_name(value) +
                          " changes its value, which templates may not");
  if (has(others.missing, name))
    throw DataError("found the attribute " + name + " of " + type_name(value) +
                    ", which is not supported; expected another");
  const auto own = methods.find(name);
  if (own == methods.end()) return std::nullopt;
  budget.step(2);
  budget.memory(256);
  return std::make_shared<const Function>(
      Function{name, [method = own->second, value, &budget](Arguments& arguments) {
                 return method({value, arguments, budget});
               }});
}

// Those of a safe text that escape what they are given.
void require_plain(const Text& text, const std::string& name) {
  static const std::vector<std::string> kEscaping = {
      "center", "format", "join", "ljust", "partition", "replace", "rjust", "rpartition", "zfill"};
  if (text.is_safe && has(kEscaping, name))
    throw DataError("found the method " + name + " of a safe text, which is not supported; " +
                    "expected one of a plain text");
}

}  // namespace

std::optional<Value> method(const Value& value, const std::string& name, Budget& budget) {
  static const Others kOfText = {{},
                                 {"casefold", "encode", "format_map", "maketrans", "translate"}};
  static const Others kOfTuple;
  static const Others kOfList = {
      {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}, {}};
  static const Others kOfDict = {{"clear", "pop", "popitem", "setdefault", "update"}, {"fromkeys"}};
  static const Others kOfNumber = {
      {},
      {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes",
       "fromhex", "hex", "imag", "is_integer", "numerator", "real", "to_bytes"}};
  if (auto* text = value.get<Text>()) {
    require_plain(*text, name);
    return one_of(text_methods(), kOfText, value, name, budget);
  }
  if (value.is<DictPtr>()) return one_of(dict_methods(), kOfDict, value, name, budget);
  if (is_number(value)) return one_of({}, kOfNumber, value, name, budget);
  if (auto* sequence = value.get<SequencePtr>()) {
    const auto& elements = (*sequence)->elements;
    switch ((*sequence)->kind) {
      case SequenceKind::list:
        return one_of(list_methods(), kOfList, value, name, budget);
      case SequenceKind::group:
        if (name == "grouper") return elements[0];
        if (name == "list") return elements[1];
        [[fallthrough]];
      case SequenceKind::tuple:
      case SequenceKind::range:
        return one_of(tuple_methods(), kOfTuple, value, name, budget);
      default:
        return std::nullopt;
    }
  }
  static const Others kOfFunction = {{},
                                     {"arguments", "caller", "catch_kwargs", "catch_varargs",
                                      "explicit_caller", "fromkeys", "name"}};
  if (value.is<FunctionPtr>()) return one_of({}, kOfFunction, value, name, budget);
  return std::nullopt;
}

Value call_text_method(const char* name, const Value& text, const Arguments& arguments,
                       Budget& budget) {
  return text_methods().at(name)({text, arguments, budget});
}

}  // namespace longshore::data::jinja
