#include "longshore/data/jinja/python_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "longshore/base/integer.h"
#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/jinja/characters.h"
#include "longshore/data/jinja/python_text.h"

namespace longshore::data::jinja {
namespace {

constexpr int64_t kMostPrecision = 1000;

// How one value is written.
struct Style {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', or '=': between the sign and the digits
  char sign = '-';
  bool is_alternate = false;
  int64_t width = 0;
  char grouping = 0;
  std::optional<int64_t> precision;
  char type = 0;
};

// The characters of a format from left to right.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  char peek() const { return rest_.empty() ? '\0' : rest_[0]; }
  std::string_view rest() const { return rest_; }
  std::string_view take(size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  bool take_if(char c) { return !at_end() && peek() == c && !take(1).empty(); }
  char take_any(std::string_view of) {
    return !at_end() && of.find(peek()) != of.npos ? take(1)[0] : '\0';
  }
  std::optional<int64_t> take_number() {
    const size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    if (digits == 0) return std::nullopt;
    const auto number = integer<int64_t>(take(digits));
    if (!number) throw DataError("found a number beyond 64 bits in a format, expected less");
    return number;
  }

 private:
  std::string_view rest_;
};

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw DataError("found " + found + " in a format, expected " + expected);
}

std::string padded(std::string_view sign, const std::string& body, const Style& style, char align,
                   Budget& budget) {
  const auto length = static_cast<int64_t>(count_characters(body, budget) + sign.size());
  const int64_t missing = std::max<int64_t>(style.width - length, 0);
  budget.memory(static_cast<size_t>(missing) * style.fill.size() + body.size());
  auto fill = [&](int64_t count) {
    std::string text;
    for (; count > 0; --count) text += style.fill;
    return text;
  };
  std::string text(sign);
  switch (align) {
    case '<':
      return text + body + fill(missing);
    case '=':
      return text + fill(missing) + body;
    case '^':
      return fill(missing / 2) + text + body + fill(missing - missing / 2);
    default:
      return fill(missing) + text + body;
  }
}

std::string grouped(std::string digits, char separator, size_t group) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t at = whole; at > group; at -= group) digits.insert(at - group, 1, separator);
  return digits;
}

std::string digits_of(uint64_t number, unsigned base) {
  std::string digits;
  do digits += "0123456789abcdef"[number % base];
  while ((number /= base) > 0);
  std::ranges::reverse(digits);
  return digits;
}

std::string sign_of(bool is_negative, const Style& style) {
  if (is_negative) return "-";
  return style.sign == '-' ? "" : std::string(1, style.sign);
}

std::string integer_text(int64_t number, const Style& style, Budget& budget) {
  const unsigned base = style.type == 'x' || style.type == 'X' ? 16
                        : style.type == 'o'                    ? 8
                        : style.type == 'b'                    ? 2
                                                               : 10;
  const uint64_t magnitude =
      number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string body = digits_of(magnitude, base);
  if (const auto least = style.precision; least && static_cast<size_t>(*least) > body.size())
    body.insert(0, static_cast<size_t>(*least) - body.size(), '0');
  std::string sign = sign_of(number < 0, style);
  if (style.is_alternate && base != 10) sign += base == 16 ? "0x" : base == 8 ? "0o" : "0b";
  if (style.type == 'X') {
    std::ranges::transform(body, body.begin(), [](char c) { return std::toupper(c); });
    if (style.is_alternate) sign.back() = 'X';
  }
  if (style.grouping) body = grouped(body, style.grouping, base == 10 ? 3 : 4);
  return padded(sign, body, style, style.align ? style.align : '>', budget);
}

std::string real_text(double number, Style style, Budget& budget) {
  const bool is_plain = style.type == 0;
  if (is_plain) style.type = style.precision ? 'g' : 'r';
  if (style.type == '%') number *= 100;
  std::string body;
  if (style.type == 'r') {
    body = float_text(std::abs(number));
  } else {
    const int precision = static_cast<int>(style.precision.value_or(6));
    std::string format = style.is_alternate ? "%#.*" : "%.*";
    format += style.type == '%' ? 'f' : style.type;
    std::array<char, 2048> buffer{};
    std::snprintf(buffer.data(), buffer.size(), format.c_str(), precision, std::abs(number));
    body = buffer.data();
    if (is_plain && body.find_first_not_of("0123456789") == std::string::npos) body += ".0";
  }
  if (style.type == '%') body += '%';
  if (style.grouping) body = grouped(body, style.grouping, 3);
  return padded(sign_of(std::signbit(number) && !std::isnan(number), style), body, style,
                style.align ? style.align : '>', budget);
}

std::string text_text(const std::string& text, const Style& style, char align, Budget& budget) {
  const size_t most = style.precision
                          ? byte_of_character(text, static_cast<size_t>(*style.precision), budget)
                          : text.size();
  return padded("", text.substr(0, most), style, align, budget);
}

void check_precision(const Style& style) {
  if (style.precision && *style.precision > kMostPrecision)
    refuse("the precision " + std::to_string(*style.precision),
           "at most " + std::to_string(kMostPrecision));
}

// ---- "%s" % value

// Of the values of a text with fields: one after the other, or by their names.
class PercentValues {
 public:
  PercentValues(const Value& values, Budget& budget) : values_(values), budget_(budget) {
    if (auto* sequence = values.get<SequencePtr>(); sequence && (*sequence)->is_tuple())
      tuple_ = sequence->get();
  }

  const Value& next() {
    if (tuple_ ? taken_ == tuple_->elements.size() : taken_ == 1)
      refuse("more fields than values", "as many");
    return tuple_ ? tuple_->elements[taken_++] : (++taken_, values_);
  }

  const Value& named(std::string_view name) {
    const auto* dict = values_.get<DictPtr>();
    if (!dict) refuse("a field with a name and no dict of values", "a dict");
    const Value* value = find(**dict, name, budget_);
    if (!value) refuse("the name " + excerpt(name), "one that the dict of values has");
    return *value;
  }

  void require_all_taken() const {
    // What may have names, which to Python a list is as well, may have more than are asked for.
    const auto* list = values_.get<SequencePtr>();
    const bool has_names = values_.is<DictPtr>() || (list && (*list)->kind <= SequenceKind::range);
    const size_t most = tuple_ ? tuple_->elements.size() : has_names ? 0 : 1;
    if (taken_ < most) refuse("fewer fields than values", "as many");
  }

 private:
  const Value& values_;
  Budget& budget_;
  const Sequence* tuple_ = nullptr;
  size_t taken_ = 0;
};

Style percent_style(Cursor& cursor, PercentValues& values) {
  Style style;
  bool is_zero_filled = false;
  while (const char flag = cursor.take_any("#0- +")) {
    if (flag == '#') style.is_alternate = true;
    if (flag == '0') is_zero_filled = true;
    if (flag == '-') style.align = '<';
    if (flag == '+' || (flag == ' ' && style.sign == '-')) style.sign = flag;
  }
  auto number = [&]() -> int64_t {
    if (cursor.take_if('*')) return as_integer(values.next(), "a width in a format");
    return cursor.take_number().value_or(0);
  };
  style.width = number();
  if (style.width < 0) {
    style.align = '<';
    style.width = style.width == std::numeric_limits<int64_t>::min() ? 0 : -style.width;
  }
  if (cursor.take_if('.')) style.precision = std::max<int64_t>(number(), 0);
  check_precision(style);
  cursor.take_any("hlL");
  if (cursor.at_end()) refuse("an unfinished field", "a field such as %s");
  style.type = cursor.take(1)[0];
  const bool is_number = std::string_view("diuoxXeEfFgG").find(style.type) != std::string::npos;
  if (is_zero_filled && is_number && style.align == 0) {
    style.fill = "0";
    style.align = '=';
  }
  return style;
}

std::string percent_field(const Value& value, Style style, Budget& budget) {
  const char text_align = style.align == '<' ? '<' : '>';
  switch (style.type) {
    case 's':
      return text_text(str(value, budget), style, text_align, budget);
    case 'r':
      return text_text(repr(value, budget), style, text_align, budget);
    case 'c':
      if (const std::string* text = as_text(value)) {
        if (count_characters(*text, budget) != 1) refuse("more than a character for %c", "one");
        return text_text(*text, style, text_align, budget);
      } else {
        const int64_t code = as_integer(value, "a character");
        if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
          refuse(std::to_string(code) + " for %c", "the code of a character");
        std::string character;
        append_character(character, static_cast<char32_t>(code));
        return text_text(character, style, text_align, budget);
      }
    case 'd':
    case 'i':
    case 'u':
      style.type = 'd';
      return integer_text(to_integer(value), style, budget);
    case 'o':
    case 'x':
    case 'X':
      return integer_text(as_integer(value, "a value for a field of a format"), style, budget);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      if (!is_number(value)) refuse(type_name(value) + " for a number", "a number");
      return real_text(as_double(value), style, budget);
    default:
      refuse("%" + excerpt(std::string(1, style.type)), "one of s, r, c, d, i, u, o, x, e, f, g");
  }
}

// ---- "{}".format(value)

Style brace_style(std::string_view spec, const Value& value) {
  Style style;
  Cursor cursor(spec);
  constexpr std::string_view kAligns = "<>^=";
  if (!cursor.at_end()) {
    const size_t bytes = first_character(cursor.rest()).bytes;
    if (cursor.rest().size() > bytes && kAligns.find(cursor.rest()[bytes]) != kAligns.npos)
      style.fill = cursor.take(bytes);
  }
  style.align = cursor.take_any(kAligns);
  if (const char sign = cursor.take_any("+- ")) style.sign = sign;
  style.is_alternate = cursor.take_if('#');
  if (cursor.peek() == '0' && !style.align && style.fill == " ") {
    style.fill = "0";
    if (is_number(value)) style.align = '=';
  }
  style.width = cursor.take_number().value_or(0);
  style.grouping = cursor.take_any(",_");
  if (cursor.take_if('.')) {
    style.precision = cursor.take_number();
    if (!style.precision) refuse("no digits after a point", "a precision");
  }
  check_precision(style);
  style.type = cursor.take_any("sbcdeEfFgGoxX%");
  if (!cursor.at_end()) refuse(in_quotes(spec), "such as >8.2f");
  return style;
}

std::string brace_field(const Value& value, std::string_view spec, Budget& budget) {
  if (spec.empty()) return str(value, budget);
  const Style style = brace_style(spec, value);
  const bool is_of_integers =
      style.type == 0 || std::string_view("bcdoxX").find(style.type) != std::string_view::npos;
  if (const std::string* text = as_text(value)) {
    if ((style.type != 0 && style.type != 's') || style.align == '=')
      refuse(in_quotes(spec) + " for a str", "a format of texts");
    return text_text(*text, style, style.align ? style.align : '<', budget);
  }
  if (!is_number(value) || style.type == 's' || style.type == 'c')
    refuse(in_quotes(spec) + " for " + type_name(value), "a format that it has");
  if (!value.is<double>() && is_of_integers) {
    if (style.precision) refuse("a precision for an int", "none");
    return integer_text(as_integer(value, "a value"), style, budget);
  }
  if (style.type != 0 && is_of_integers) refuse(in_quotes(spec) + " for a float", "a float's");
  return real_text(as_double(value), style, budget);
}

// Of fields: all with numbers, or all without.
class Numbering {
 public:
  // Nothing for a field that has a name.
  std::optional<size_t> index(std::string_view field) {
    const auto number = field.empty() ? next_ : integer<size_t>(field);
    if (!number) return number;
    if (is_automatic_.value_or(field.empty()) != field.empty())
      refuse("fields with and without numbers", "one kind");
    is_automatic_ = field.empty();
    if (field.empty()) ++*next_;
    return number;
  }

 private:
  std::optional<size_t> next_ = 0;
  std::optional<bool> is_automatic_;
};

// The value of "0.name[key]".
Value field_value(std::string_view path, const Arguments& arguments, const FieldLookup& lookup,
                  Numbering& numbering, Budget& budget) {
  const size_t end = std::min(path.find_first_of(".["), path.size());
  const std::string_view first = path.substr(0, end);
  Value value;
  if (const auto index = numbering.index(first)) {
    if (*index >= arguments.positional.size()) refuse("more fields than values", "as many");
    value = arguments.positional[*index];
  } else {
    const auto named =
        std::ranges::find(arguments.named, first, &std::pair<std::string, Value>::first);
    if (named == arguments.named.end()) refuse("the name " + excerpt(first), "an argument's");
    value = named->second;
  }
  for (Cursor cursor(path.substr(end)); !cursor.at_end();) {
    if (cursor.take_if('.')) {
      const size_t bytes = std::min(cursor.rest().find_first_of(".["), cursor.rest().size());
      value = lookup.attribute(value, std::string(cursor.take(bytes)), budget);
    } else if (const size_t close = cursor.rest().find(']');
               cursor.take_if('[') && close != std::string_view::npos) {
      const std::string_view key = cursor.take(close - 1);
      cursor.take(1);
      const auto index = integer<int64_t>(key);
      value = lookup.element(value, index ? Value(*index) : make_text(std::string(key), budget),
                             budget);
    } else {
      refuse(in_quotes(path), "a path such as a.b[0]");
    }
  }
  return value;
}

std::string converted_field(std::string_view field, const Arguments& arguments,
                            const FieldLookup& lookup, Numbering& numbering, Budget& budget) {
  const size_t colon = std::min(field.find(':'), field.size());
  std::string_view path = field.substr(0, colon);
  const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : "";
  if (field.find('{') != field.npos) refuse("a field within a field", "none");
  const size_t mark = path.find('!');
  const std::string_view conversion = mark == path.npos ? "" : path.substr(mark);
  Value value = field_value(path.substr(0, mark), arguments, lookup, numbering, budget);
  if (conversion == "!r")
    value = make_text(repr(value, budget), budget);
  else if (conversion == "!s")
    value = make_text(str(value, budget), budget);
  else if (!conversion.empty())
    refuse(in_quotes(conversion), "!r or !s");
  return brace_field(value, spec, budget);
}

}  // namespace

std::string percent_format(const std::string& format, const Value& values, Budget& budget) {
  PercentValues next(values, budget);
  std::string text;
  budget.step(format.size() / 4);
  for (Cursor cursor(format); !cursor.at_end();) {
    text += cursor.take(std::min(cursor.rest().find('%'), cursor.rest().size()));
    if (!cursor.take_if('%')) break;
    if (cursor.take_if('%')) {
      text += '%';
      continue;
    }
    const Value* value = nullptr;
    if (cursor.take_if('(')) {
      const size_t close = cursor.rest().find(')');
      if (close == std::string_view::npos) refuse("an unfinished name", ")");
      value = &next.named(cursor.take(close));
      cursor.take(1);
    }
    const Style style = percent_style(cursor, next);
    if (style.type == '%') {
      text += '%';
      continue;
    }
    text += percent_field(value ? *value : next.next(), style, budget);
  }
  next.require_all_taken();
  return text;
}

std::string brace_format(const std::string& format, const Arguments& arguments,
                         const FieldLookup& lookup, Budget& budget) {
  std::string text;
  Numbering numbering;
  budget.step(format.size() / 4);
  for (Cursor cursor(format); !cursor.at_end();) {
    text += cursor.take(std::min(cursor.rest().find_first_of("{}"), cursor.rest().size()));
    if (cursor.at_end()) break;
    const char brace = cursor.take(1)[0];
    if (cursor.take_if(brace)) {
      text += brace;
      continue;
    }
    const size_t close = cursor.rest().find('}');
    if (brace == '}' || close == std::string_view::npos)
      refuse("a single brace", "two, or a field");
    text += converted_field(cursor.take(close), arguments, lookup, numbering, budget);
    cursor.take(1);
  }
  return text;
}

}  // namespace longshore::data::jinja
