#include "longshore/data/jinja/python_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "longshore/base/utf8.h"
#include "longshore/data/jinja/characters.h"

namespace longshore::data::jinja {
namespace {

void write_repr_of_text(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  while (!text.empty()) {
    const Character character = first_character(text);
    const char32_t c = character.code_point;
    std::array<char, 16> escape{};
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == static_cast<unsigned char>(quote)) {
      out += {'\\', static_cast<char>(c)};
    } else if (is_printable(c)) {
      out += text.substr(0, character.bytes);
    } else {
      const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escape.data(), escape.size(), format, static_cast<unsigned>(c));
      out += escape.data();
    }
    text.remove_prefix(character.bytes);
  }
  out += quote;
}

// Writes repr() at the end of a text that it takes the memory of.
class Writer {
 public:
  Writer(std::string& out, Budget& budget) : out_(out), budget_(budget) {}

  void write(const Value& value) {
    const Budget::Level level(budget_);
    const size_t before = out_.size();
    budget_.step();
    std::visit(*this, static_cast<const Held&>(value));
    if (!value.is<SequencePtr>() && !value.is<DictPtr>() && !value.is<Namespace*>())
      budget_.memory(out_.size() - before);
  }

  void operator()(const Undefined&) { out_ += "Undefined"; }
  void operator()(None) { out_ += "None"; }
  void operator()(bool value) { out_ += value ? "True" : "False"; }
  void operator()(int64_t value) { out_ += std::to_string(value); }
  void operator()(double value) { out_ += float_text(value); }
  void operator()(const Text& text) {
    budget_.step(text->size() / 16);
    out_ += text.is_safe ? "Markup(" : "";
    write_repr_of_text(*text, out_);
    out_ += text.is_safe ? ")" : "";
  }
  void operator()(const SequencePtr& sequence) {
    switch (sequence->kind) {
      case SequenceKind::list:
        return write_elements(*sequence, "[", "]");
      case SequenceKind::tuple:
      case SequenceKind::group:
        return write_elements(*sequence, "(", sequence->elements.size() == 1 ? ",)" : ")");
      case SequenceKind::keys:
      case SequenceKind::values:
      case SequenceKind::items:
        return write_elements(*sequence, (type_name(sequence) + "([").c_str(), "])");
      default:
        refuse(sequence);
    }
  }
  void operator()(const DictPtr& dict) { write_items(*dict); }
  void operator()(Namespace* space) {
    out_ += "<Namespace ";
    write_items(space->attributes);
    out_ += ">";
  }
  void operator()(const FunctionPtr& function) { refuse(function); }
  void operator()(const std::weak_ptr<Loop>& loop) { refuse(loop); }

 private:
  [[noreturn]] static void refuse(const Value& value) {
    const bool is_iterator =
        value.is<SequencePtr>() && (*value.get<SequencePtr>())->kind == SequenceKind::iterator;
    throw DataError("found " + type_name(value) + " to be written as text, expected " +
                    (is_iterator ? "a list, which the filter list makes of it"
                                 : "a value whose text says what it holds"));
  }

  void write_elements(const Sequence& sequence, const char* before, const char* after) {
    const char* between = before;
    for (const Value& element : sequence.elements) {
      out_ += std::exchange(between, ", ");
      write(element);
    }
    if (sequence.elements.empty()) out_ += before;
    out_ += after;
  }

  void write_items(const Dict& dict) {
    const char* between = "";
    out_ += '{';
    for (const auto& [key, value] : dict.items) {
      out_ += std::exchange(between, ", ");
      write(key);
      out_ += ": ";
      write(value);
    }
    out_ += '}';
  }

  std::string& out_;
  Budget& budget_;
};

}  // namespace

std::string str(const Value& value, Budget& budget) {
  if (value.is<Undefined>()) return "";
  if (const std::string* text = as_text(value)) {
    budget.memory(text->size());
    return *text;
  }
  return repr(value, budget);
}

std::string repr(const Value& value, Budget& budget) {
  std::string out;
  Writer(out, budget).write(value);
  return out;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer{};
  auto written = [&](std::chars_format format) {
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format);
    return std::string(buffer.data(), end.ptr);
  };
  std::string scientific = written(std::chars_format::scientific);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return scientific;
  const std::string fixed = written(std::chars_format::fixed);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

std::string escaped_for_html(std::string_view text, Budget& budget) {
  std::string result;
  budget.step(text.size() / 16);
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&#34;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  budget.memory(result.size());
  return result;
}

}  // namespace longshore::data::jinja
